#include <tandem/nn/inspect.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ostream>

namespace tandem::nn {

namespace {

template <class T>
void measure(const std::vector<T>& gradient, GradientState& state) {
  double squares = 0;
  for (const T value : gradient) {
    const double g = std::abs(double(value));
    squares += g * g;
    if (g > state.max_abs || std::isnan(g)) state.max_abs = g;  // nothing is larger than a NaN
    if (!std::isfinite(g)) ++state.non_finite;
  }
  state.norm = std::sqrt(squares);
}

}  // namespace

std::vector<GradientState> gradient_states(Module& model) {
  std::vector<GradientState> states;
  for (const auto& [name, p] : model.named_parameters()) {
    GradientState& state = states.emplace_back();
    state.name = name;
    state.shape = p.shape();
    state.requires_grad = p.requires_grad();
    const Tensor gradient = p.grad();
    state.defined = gradient.defined();
    if (!state.defined) continue;
    if (gradient.dtype() == float64) {
      measure(gradient.to_vector<double>(), state);
    } else {
      measure(gradient.to(float32).to_vector<float>(), state);
    }
  }
  return states;
}

void print_gradients(Module& model, std::ostream& out) {
  const std::vector<GradientState> states = gradient_states(model);
  std::size_t name_width = 9, shape_width = 5;
  for (const GradientState& s : states) {
    name_width = std::max(name_width, s.name.size());
    shape_width = std::max(shape_width, str(s.shape).size());
  }
  const auto begin = [&](const std::string& name, const std::string& shape) {
    out << std::left << std::setw(int(name_width)) << name << "  " << std::setw(int(shape_width))
        << shape << std::right << "  ";
  };
  begin("parameter", "shape");
  out << std::setw(10) << "norm" << std::setw(12) << "max |g|"
      << "  not finite\n";
  for (const GradientState& s : states) {
    begin(s.name, str(s.shape));
    if (!s.defined) {
      out << std::setw(10) << (s.requires_grad ? "none" : "frozen") << '\n';
      continue;
    }
    out << str(std::setprecision(4), std::setw(10), s.norm, std::setw(12), s.max_abs) << "  "
        << std::setw(10) << s.non_finite << '\n';
  }
}

}  // namespace tandem::nn
