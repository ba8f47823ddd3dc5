// Not Tandem's module either. Included as <nn/module.h>, the way that finds the wrong one first.
#pragma once

namespace consumer {

inline constexpr int kModules = 3;

}  // namespace consumer
