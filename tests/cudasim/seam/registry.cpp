// Finds the PTX text inside an object that nvcc built. The object must hold it uncompressed:
// architectures "...;90" (not "90-real") and the option --no-compress.
#include "seam/registry.h"

#include <fatbinary_section.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cudasim::seam {
namespace {

constexpr std::size_t kHeader = 16;  // magic, version, header size; then the size
constexpr std::size_t kSizeAt = 8;
constexpr std::size_t kSharedWithoutOptIn = 48 << 10;
constexpr std::string_view kPtxStart = ".version ";

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "cudasim: %s\n", why.c_str());
  std::abort();
}

std::string_view fat_binary(const void* wrapper) {
  const auto* data =
      reinterpret_cast<const char*>(static_cast<const __fatBinC_Wrapper_t*>(wrapper)->data);
  std::uint64_t size;
  std::memcpy(&size, data + kSizeAt, sizeof size);
  return {data, kHeader + size};
}

std::vector<std::string> ptx_texts(std::string_view binary) {
  std::vector<std::string> texts;
  for (std::size_t at = binary.find(kPtxStart); at != std::string_view::npos;
       at = binary.find(kPtxStart, at)) {
    const std::string_view text = binary.substr(at, binary.find('\0', at) - at);
    texts.emplace_back(text);
    at += text.size();
  }
  return texts;
}

// Of several texts, the one for CUDASIM_PTX ("sm_75"); else the last, which is for the newest.
const std::string& choose(const std::vector<std::string>& texts) {
  const char* wanted = std::getenv("CUDASIM_PTX");
  if (!wanted) return texts.back();
  for (const std::string& text : texts)
    if (text.find(std::string(".target ") + wanted) != std::string::npos) return text;
  give_up(std::string("no PTX for ") + wanted + " in this object");
}

}  // namespace

class Binary {
 public:
  explicit Binary(const void* wrapper) : bytes_(fat_binary(wrapper)) {}

  // Null: its PTX has none of that name.
  const ptx::Kernel* find(const std::string& name) {
    std::call_once(once_, [&] { decode(); });
    const auto kernel = kernels_.find(name);
    return kernel == kernels_.end() ? nullptr : kernel->second;
  }

 private:
  void decode() {
    const std::vector<std::string> texts = ptx_texts(bytes_);
    if (texts.empty()) give_up("no plain PTX in an object; build it with --no-compress");
    module_ = ptx::parse(choose(texts));
    for (const ptx::Kernel& kernel : module_.kernels) kernels_[kernel.name()] = &kernel;
  }

  std::string_view bytes_;
  std::once_flag once_;
  ptx::Module module_;
  std::unordered_map<std::string_view, const ptx::Kernel*> kernels_;  // an object may have hundreds
};

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Binary>> binaries;
  std::map<const void*, Function> functions;
};

Registry& registry() {
  static auto* made = new Registry;  // outlives the static destructors of the program
  return *made;
}

}  // namespace

Binary* add_binary(const void* wrapper) {
  std::lock_guard lock(registry().mutex);
  return registry().binaries.emplace_back(std::make_unique<Binary>(wrapper)).get();
}

void add_function(Binary* binary, const void* stub, const char* name) {
  std::lock_guard lock(registry().mutex);
  registry().functions[stub] = {binary, name};
}

Function* find_function(const void* stub) {
  std::lock_guard lock(registry().mutex);
  auto it = registry().functions.find(stub);
  return it == registry().functions.end() ? nullptr : &it->second;
}

const ptx::Kernel& kernel_of(Function& function) {
  const ptx::Kernel* kernel = function.binary->find(function.name);
  if (!kernel) give_up("the PTX has no kernel " + function.name);
  return *kernel;
}

std::size_t dynamic_shared_limit(Function& function) {
  const std::size_t fixed = kernel_of(function).static_shared_bytes();
  const std::size_t free = fixed < kSharedWithoutOptIn ? kSharedWithoutOptIn - fixed : 0;
  return std::max(free, function.opted_in_shared);
}

}  // namespace cudasim::seam
