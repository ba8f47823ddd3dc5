// Layers without weights: each calls its op.
#include <tandem/nn/activations.h>

#include <tandem/core/ops/dropout.h>
#include <tandem/core/ops/pointwise.h>
#include <tandem/core/ops/softmax.h>
#include <tandem/core/ops/views.h>

namespace tandem::nn {

Tensor ReLU::forward(const Tensor& x) {
  return relu(x);
}
Tensor GELU::forward(const Tensor& x) {
  return gelu(x);
}
Tensor Tanh::forward(const Tensor& x) {
  return tanh(x);
}
Tensor Sigmoid::forward(const Tensor& x) {
  return sigmoid(x);
}

Tensor SiLU::forward(const Tensor& x) {
  return silu(x);
}

Tensor LeakyReLU::forward(const Tensor& x) {
  return leaky_relu(x, negative_slope);
}

void LeakyReLU::visit(Visitor& v) {
  v("negative_slope", negative_slope);
}

std::string LeakyReLU::describe() const {
  return str("LeakyReLU(negative_slope=", negative_slope, ")");
}

Tensor Softmax::forward(const Tensor& x) {
  return softmax(x, dim);
}

void Softmax::visit(Visitor& v) {
  v("dim", dim);
}

std::string Softmax::describe() const {
  return str("Softmax(dim=", dim, ")");
}

Tensor LogSoftmax::forward(const Tensor& x) {
  return log_softmax(x, dim);
}

std::string LogSoftmax::describe() const {
  return str("LogSoftmax(dim=", dim, ")");
}

Tensor Flatten::forward(const Tensor& x) {
  return flatten(x, start_dim, end_dim);
}

void Flatten::visit(Visitor& v) {
  v("start_dim", start_dim);
  v("end_dim", end_dim);
}

std::string Flatten::describe() const {
  return str("Flatten(start_dim=", start_dim, ", end_dim=", end_dim, ")");
}

Dropout::Dropout(double probability) : p(probability) {
  check(p >= 0 && p <= 1, "[Dropout] p must be between 0 and 1: got ", p);
}

Tensor Dropout::forward(const Tensor& x) {
  return dropout(x, p, training);
}

void Dropout::visit(Visitor& v) {
  v("p", p);
}

std::string Dropout::describe() const {
  return str("Dropout(p=", p, ")");
}

}  // namespace tandem::nn
