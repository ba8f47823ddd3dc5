// Not Tandem's tensor: this project has one of its own, in a folder that is called the same.
#pragma once

namespace consumer {

struct Tensor {
  double xx = 0, xy = 0, yy = 0;
  double trace() const;
};

}  // namespace consumer
