// Golden numbers of PyTorch 1.13.0a0 on one CPU thread.
// Written by tests/golden/make_optim.py: do not edit.
#pragma once

#include <cstdint>

namespace tandem::test {

struct OptimGolden {
  const char* name;
  std::uint64_t after[3];  // FNV-1a of all parameters after steps 1, 10 and 50
  std::uint64_t state;     // FNV-1a of all state tensors after step 50, tensor by tensor
  std::uint64_t bits[5];   // of the first parameter after step 50
};

// clang-format off
inline constexpr OptimGolden kOptimGolden[] = {
  {"sgd",
   {0xaee58dba3afd7fb1, 0xea6fc48130d4a3aa, 0x6983b58f86500ff5}, 0xcbf29ce484222325,
   {0xbd43cc1f, 0x3e128349, 0xbdcc0944, 0xbe119be1, 0x3c8d2453}},
  {"sgd weight_decay",
   {0x233251829cee3f59, 0xcc6c08f7a6701c1e, 0xaa0b5d95eae45a05}, 0xcbf29ce484222325,
   {0xbd31ab7b, 0x3e0a48f2, 0xbdc1ef83, 0xbe0c0c1d, 0x3c95d23e}},
  {"sgd momentum",
   {0x0a3f1fc3ee22b761, 0xddf333fefaa0668b, 0x722b67106cf1c624}, 0xbe2b18ee572a80b8,
   {0xbec564a7, 0x3ea93121, 0xbec3c7fb, 0xbec599a8, 0x3cd88883}},
  {"sgd dampening",
   {0x0a3f1fc3ee22b761, 0x59b7373f27de57e1, 0xc27deb0de05b9883}, 0xa1a955bc4daebbd2,
   {0xbe83f52b, 0x3e80bfe8, 0xbe89cd0c, 0xbe8ad6c3, 0x3c15d2c7}},
  {"sgd nesterov",
   {0xdc8043de66053314, 0x8a2dd98ada53ee95, 0x6815223a900d899a}, 0xb1fc365494a34f78,
   {0xbeb902c5, 0x3ea66fb2, 0xbebf1925, 0xbec4914a, 0x3d12dad3}},
  {"sgd maximize",
   {0xe053e891216716a7, 0xe8ae83edda7b8fa7, 0x77aa023044c23a5f}, 0xc8d43692603b3d73,
   {0x3e477fa8, 0xbd5599ae, 0x3e3b863a, 0x3e1fc12f, 0xbda09bcc}},
  {"sgd float64",
   {0x53bd30d0d2748d5e, 0x209fcfed615a8ad3, 0x9b64cc4458f4b21b}, 0xb047430794752310,
   {0xbfd89b03afda48b3, 0x3fd507a36b1678ff, 0xbfd86448565b7593, 0xbfd8a03f731e0f35, 0x3f9b1d330d99d566}},
  {"adam",
   {0x3f0bf6bc941854e3, 0xf3d4bf82d9a3f2bd, 0x92fce2146f9508d4}, 0xbb35a3f12de87c7b,
   {0xba09b7c8, 0x3d98cc0c, 0xbbda6cf7, 0xbcef48b2, 0xbd07eba4}},
  {"adam options",
   {0x660bbeac0718f3f1, 0xffccbe2d7e6db1d8, 0x22df16b15773a259}, 0xdb69325a93e78f73,
   {0xbbd66859, 0x3dad3950, 0xbc9f71a3, 0xbd14334e, 0xbd04191e}},
  {"adam weight_decay",
   {0xb4d71ec342ad2553, 0x580b46c6ca41b36b, 0x1e1a0c203c49d5f8}, 0x87091e219f3f1f03,
   {0xbd6ed5a0, 0x3e106185, 0xbdb87c3d, 0xbd95264d, 0xbc9fc2ff}},
  {"adam amsgrad",
   {0x4c9d6d4de3e58e78, 0x1625127aa95a25a3, 0x364b6c99ab3d033f}, 0xa94c0a5a0242a178,
   {0xbd72285a, 0x3e168943, 0xbdbcf86b, 0xbd98deb2, 0xbcbfa6c2}},
  {"adam maximize",
   {0xddf6304ddd95e7b5, 0xe582d0af23e3428f, 0x1dc0e5cf430be8e2}, 0x2dca1534c5601f7b,
   {0x3d91af45, 0xbc63c94a, 0x3dc8b6a9, 0x3cd7cab0, 0xbd38f59f}},
  {"adam float64",
   {0xecba100319a5095b, 0x6cee93b1b496d0b7, 0xcca5fd269b1d94a1}, 0x579c57cc9ca21412,
   {0xbfadd62077d2c864, 0x3fc20bad22ed9c59, 0xbfb70d5f335972d1, 0xbfb2a3bcc37dc771, 0xbf93fa20aa62cba9}},
  {"adamw",
   {0xb824754016185c48, 0x8dd699fe60c4eb91, 0x6dec434022c8524d}, 0xbb35a3f12de87c7b,
   {0xba0a1aa1, 0x3d98b8af, 0xbbda5b11, 0xbcef2dcf, 0xbd07d9ff}},
  {"adamw amsgrad",
   {0xa0427e71e17ce0e3, 0x357fdf968810a8ec, 0x2f934e26250e6b2e}, 0xa94c0a5a0242a178,
   {0xbd6d318b, 0x3e0f9779, 0xbdb61d44, 0xbd94f529, 0xbcb484b6}},
  {"adam skips",
   {0xcf7726aa5473a3c8, 0x54f92769946bda7e, 0x60210c9ab4b58409}, 0x3d66e52a336cbcce,
   {0xbd724e32, 0x3e168dfa, 0xbdbd0a90, 0xbd98e797, 0xbcbf9866}},
  {"sgd schedule",
   {0xaee58dba3afd7fb1, 0xb34d7728c8e4e7e5, 0xddab76fa7c87b8b4}, 0xbe2b18ee572a80b8,
   {0xbf2865af, 0x3f92ec6d, 0xbf58bf98, 0xbf45c3fb, 0x3e483832}},
  {"adamw groups",
   {0x8aac27772758a9fb, 0xbd7f11459b70c27f, 0x17880d5a5d6b7a99}, 0xbb35a3f12de87c7b,
   {0xba0a1aa1, 0x3d98b8af, 0xbbda5b11, 0xbcef2dcf, 0xbd07d9ff}},
};

struct ClipGolden {
  double norm_type, max_norm, total;
  double clipped[3];  // gradient 0 [0], 1 [63], 2 [1002]
};

inline constexpr double kInf = __builtin_inf();
inline constexpr ClipGolden kClipGolden[] = {
  {2, 1.0, 7.70305871963501, {-0.01500180084258318, -0.0038378529716283083, 0.0009581256890669465}},
  {2, 1000.0, 7.70305871963501, {-0.11555977165699005, -0.029563210904598236, 0.007380499504506588}},
  {1, 10.0, 133.0421905517578, {-0.008685949258506298, -0.0022220928221940994, 0.0005547488108277321}},
  {3, 0.5, 3.3665902614593506, {-0.017162727192044258, -0.00439067417755723, 0.0010961382649838924}},
  {kInf, 0.25, 0.9951918125152588, {-0.029029492288827896, -0.007426503114402294, 0.0018540375167503953}},
};
// clang-format on

}  // namespace tandem::test
