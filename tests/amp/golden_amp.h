// Golden numbers of PyTorch 1.13.0a0 on one CPU thread.
// Written by tests/golden/make_amp.py: do not edit.
#pragma once

namespace tandem::test {

// clang-format off
inline constexpr double kAmpLoss = 1.5572017431259155;
inline constexpr double kAmpLogits[] = {0.98828125, 0.89453125, -0.21484375, -0.53125, -0.80078125, 0.043212890625, 0.46875, 0.162109375, 0.404296875, 0.296875};  // of rows 0 and 1, bfloat16
// Norms of the gradients of weight and bias of both layers, and their first elements.
inline constexpr double kAmpNorms[] = {0.36198481917381287, 0.20570804178714752, 0.7854947447776794, 0.1260688453912735};
inline constexpr double kAmpFirst[] = {0.02880859375, -0.052490234375, 0.017578125, 0.003662109375};
// clang-format on

}  // namespace tandem::test
