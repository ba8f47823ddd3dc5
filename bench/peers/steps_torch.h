// The training steps of steps.cpp in libtorch, as PyTorch's own script would take them.
#pragma once

#include <cstdint>
#include <functional>

namespace peers {

/// One step of Adam on samples/quickstart_cnn's network.
std::function<void()> torch_cnn(std::int64_t batch, bool channels_last);
/// One step of Adam on Linear 784-256-256-10 with ReLU.
std::function<void()> torch_mlp(std::int64_t batch);
void torch_threads(int count);

}  // namespace peers
