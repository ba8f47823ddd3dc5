// Networks that several benchmarks train.
#pragma once

#include <tandem/tandem.h>

namespace bench {

/// Of samples/quickstart_cnn: images (N, 3, 32, 32), 10 classes.
inline tandem::nn::Sequential cnn() {
  namespace nn = tandem::nn;
  return nn::Sequential{nn::Conv2d(3, 64, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::MaxPool2d(2),
                        nn::Conv2d(64, 128, 3, {.padding = 1}),
                        nn::ReLU(),
                        nn::AdaptiveAvgPool2d(1),
                        nn::Flatten(),
                        nn::Linear(128, 10)};
}

}  // namespace bench
