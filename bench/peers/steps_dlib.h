// The CNN step of steps.cpp in dlib.
#pragma once

#include <functional>

namespace peers {

/// One step of Adam on samples/quickstart_cnn's network; images are 8-bit RGB, as dlib likes them.
std::function<void()> dlib_cnn(long batch);

}  // namespace peers
