// Everything a program needs: #include <tandem/tandem.h>
#pragma once

#include <tandem/core/autograd.h>
#include <tandem/core/device.h>
#include <tandem/core/error.h>
#include <tandem/core/function.h>
#include <tandem/core/memory.h>
#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/ops/linalg.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/reduce.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>
#include <tandem/core/random.h>
#include <tandem/core/tensor.h>
#include <tandem/core/thread_state.h>
#include <tandem/core/trace.h>
