// Words that describe() of several layers needs, as PyTorch prints them.
#pragma once

namespace tandem::nn {

inline const char* true_or_false(bool b) {
  return b ? "True" : "False";
}

}  // namespace tandem::nn
