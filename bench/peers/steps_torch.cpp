#include "steps_torch.h"

#include <dlfcn.h>

#include <memory>
#include <utility>

#include <torch/torch.h>

namespace peers {
namespace {

namespace nn = torch::nn;

std::function<void()> training(nn::Sequential model, torch::Tensor x, std::int64_t batch) {
  auto optimizer =
      std::make_shared<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
  const torch::Tensor labels = torch::randint(0, 10, {batch}, torch::kLong);
  return [=]() mutable {
    // Without gradients, not with zeros: the quicker of the two.
    for (auto& p : model->parameters()) p.mutable_grad() = torch::Tensor();
    torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(x), labels);
    loss.backward();
    optimizer->step();
    loss.item<float>();
  };
}

}  // namespace

std::function<void()> torch_cnn(std::int64_t batch, bool channels_last) {
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(3, 64, 3).padding(1)), nn::ReLU(),
                       nn::MaxPool2d(2), nn::Conv2d(nn::Conv2dOptions(64, 128, 3).padding(1)),
                       nn::ReLU(), nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(128, 10));
  torch::Tensor x = torch::randn({batch, 3, 32, 32});
  if (channels_last) {
    x = x.contiguous(torch::MemoryFormat::ChannelsLast);
    torch::NoGradGuard guard;
    for (auto& p : model->parameters()) {
      if (p.dim() == 4) p.set_data(p.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  return training(model, x, batch);
}

std::function<void()> torch_mlp(std::int64_t batch) {
  nn::Sequential model(nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(),
                       nn::Linear(256, 10));
  return training(model, torch::randn({batch, 784}), batch);
}

// OpenBLAS, where it serves libtorch, has threads of its own.
void torch_threads(int count) {
  torch::set_num_threads(count);
  const auto blas =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (blas) blas(count);
}

}  // namespace peers
