// Convolutions in plain loops, on float64 numbers in the order N, C, H, W: what convolution.cpp
// queues.
#pragma once

#include <cstdint>
#include <vector>

namespace cudasim::dnn {

// x (n, c, in), w (k, c / groups, window), y (n, k, out); the pairs are vertical, horizontal.
struct Geometry {
  std::int64_t n, c, k, groups;
  std::int64_t in[2], window[2], out[2], pad[2], stride[2], dilation[2];
  bool flipped;  // CUDNN_CONVOLUTION: the window is turned by 180 degrees
};

using Numbers = std::vector<double>;

Numbers convolve(const Geometry& g, const Numbers& x, const Numbers& w);             // y
Numbers convolve_to_data(const Geometry& g, const Numbers& w, const Numbers& dy);    // dx
Numbers convolve_to_filter(const Geometry& g, const Numbers& x, const Numbers& dy);  // dw

}  // namespace cudasim::dnn
