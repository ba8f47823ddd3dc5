// Which of cuDNN's convolution algorithms can do what, as the documentation's tables say; and the
// workspace that each demands.
#pragma once

#include "dnn/context.h"
#include "dnn/convolve.h"

#include <cstddef>
#include <span>

namespace cudasim::dnn {

enum class Direction { forward, to_data, to_filter };

struct Algorithm {
  int number;
  const char* name;
  bool is_simulated;  // the others are refused as not supported, as they are for many shapes
  bool is_deterministic = true;
  bool takes_bfloat16 = true;
  bool takes_dilation = true;
};

// In the order of the answers to cudnnGetConvolution...Algorithm_v7. The first is not the one to
// take blindly: it may be a non-deterministic one.
std::span<const Algorithm> algorithms(Direction direction);
const Algorithm* find_algorithm(Direction direction, int number);

// A convolution that has passed all checks but those of the algorithm.
struct Convolution {
  Direction direction;
  Geometry geometry;
  cudnnTensorStruct x, y;  // or their gradients
  cudnnFilterStruct w;
  cudnnConvolutionStruct descriptor;
};

cudnnStatus_t refuse(const Convolution& c, const Algorithm* algorithm);

// Never zero, always odd, different from shape to shape: a real algorithm may demand anything.
std::size_t workspace_bytes(const Convolution& c, const Algorithm& algorithm);

}  // namespace cudasim::dnn
