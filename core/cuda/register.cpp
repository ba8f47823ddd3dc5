// Compiled into every program that links tandem::cuda: makes `cuda` devices known before main().
// The archive alone would not do; a linker leaves out what nobody names.
namespace tandem {

void register_cuda_backend();

namespace {
const bool registered = (register_cuda_backend(), true);
}  // namespace
}  // namespace tandem
