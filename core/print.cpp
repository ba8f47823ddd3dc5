// How a Tensor is printed: as PyTorch does, so that outputs can be compared by eye.
//
// One format for all elements: integers with a dot, four decimals, or exponents where values differ
// too much. More than 1000 elements show three at either end of each dimension. Lines have 80
// characters.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include <tandem/core/autograd.h>
#include <tandem/core/tensor.h>

namespace tandem {
namespace {

constexpr std::int64_t kThreshold = 1000, kEdge = 3;
constexpr std::size_t kLine = 80;

// The elements on the host. Doubles show every float; integers are kept apart.
struct Values {
  Shape shape;
  bool floating = true;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;
  bool boolean = false;

  explicit Values(const Array& a)
      : shape(a.shape()), floating(is_floating(a.dtype())), boolean(a.dtype() == DType::boolean) {
    if (floating) {
      if (a.dtype() == DType::float64) {
        reals = a.to_vector<double>();
      } else {
        const auto floats = a.to(DType::float32).to_vector<float>();
        reals.assign(floats.begin(), floats.end());
      }
    } else {
      integers = a.to(DType::int64).to_vector<std::int64_t>();
    }
  }
};

std::string text(const char* format, double x) {
  char buffer[400];  // 1e308 without exponent has 309 digits
  std::snprintf(buffer, sizeof buffer, format, x);
  return std::isnan(x) ? "nan" : buffer;  // never "-nan"
}

std::string line_break(std::size_t lines, std::size_t indent) {
  std::string s = ",";
  return s.append(lines, '\n').append(indent, ' ');
}

// ---- one format for all elements

class Format {
 public:
  /// `seen`: positions of the elements that decide.
  Format(const Values& values, const std::vector<std::size_t>& seen) : values_(values) {
    if (values.floating) choose(seen);
    for (std::size_t i : seen) {
      const bool decides = !values.floating || (std::isfinite(at(i)) && at(i) != 0);
      if (decides) width_ = std::max(width_, element(i).size());
    }
  }

  std::size_t width() const { return width_; }
  /// Padded on the left to the width.
  std::string padded(std::size_t i) const {
    std::string s = element(i);
    if (s.size() < width_) s.insert(0, width_ - s.size(), ' ');
    return s;
  }

 private:
  double at(std::size_t i) const { return values_.reals[i]; }

  void choose(const std::vector<std::size_t>& seen) {
    double least = HUGE_VAL, most = 0;
    bool whole = true;
    for (std::size_t i : seen) {
      if (!std::isfinite(at(i)) || at(i) == 0) continue;
      least = std::min(least, std::fabs(at(i)));
      most = std::max(most, std::fabs(at(i)));
      whole = whole && at(i) == std::ceil(at(i));
    }
    whole_ = whole;
    exponents_ = most > 0 && (most / least > 1000 || most > 1e8 || (!whole && least < 1e-4));
  }

  std::string element(std::size_t i) const {
    if (values_.boolean) return values_.integers[i] != 0 ? "True" : "False";
    if (!values_.floating) return std::to_string(values_.integers[i]);
    if (exponents_) return text("%.4e", at(i));
    if (!whole_) return text("%.4f", at(i));
    return text("%.0f", at(i)) + (std::isfinite(at(i)) ? "." : "");
  }

  const Values& values_;
  bool whole_ = true, exponents_ = false;
  std::size_t width_ = 1;
};

// ---- brackets and lines

class Printer {
 public:
  explicit Printer(const Array& a)
      : values_(a), short_(a.numel() > kThreshold), format_(values_, visible()) {}

  std::string body(std::size_t indent) const { return block(0, 0, indent); }

 private:
  /// Indices of dimension `dim` that are shown; -1 stands for "...".
  std::vector<std::int64_t> indices(int dim) const {
    const std::int64_t n = values_.shape[dim];
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < n; ++i) {
      if (short_ && n > 2 * kEdge && i == kEdge) {
        list.push_back(-1);
        i = n - kEdge;
      }
      list.push_back(i);
    }
    return list;
  }

  std::vector<std::size_t> visible() const {
    std::vector<std::size_t> positions{0};
    for (int d = 0; d < values_.shape.dim(); ++d) {
      std::vector<std::size_t> next;
      for (std::size_t p : positions) {
        for (std::int64_t i : indices(d)) {
          if (i >= 0) next.push_back(p * std::size_t(values_.shape[d]) + std::size_t(i));
        }
      }
      positions = std::move(next);
    }
    return positions;
  }

  /// The part of the tensor below `position` of the first `dim` dimensions.
  std::string block(int dim, std::size_t position, std::size_t indent) const {
    if (dim == values_.shape.dim()) return format_.padded(position);
    const std::size_t base = position * std::size_t(values_.shape[dim]);
    if (dim == values_.shape.dim() - 1) return row(base, indices(dim), indent);
    const std::size_t lines = std::size_t(values_.shape.dim() - dim - 1);
    const std::string separator = line_break(lines, indent + 1);
    std::string out = "[";
    for (std::int64_t i : indices(dim)) {
      if (out.size() > 1) out += separator;
      out += i < 0 ? "..." : block(dim + 1, base + std::size_t(i), indent + 1);
    }
    return out + "]";
  }

  std::string row(std::size_t base, const std::vector<std::int64_t>& indices,
                  std::size_t indent) const {
    const std::size_t room = kLine > indent ? kLine - indent : 0;
    const std::size_t per_line = std::max<std::size_t>(1, room / (format_.width() + 2));
    std::string out = "[";
    for (std::size_t k = 0; k < indices.size(); ++k) {
      if (k > 0) out += k % per_line == 0 ? line_break(1, indent + 1) : ", ";
      out += indices[k] < 0 ? " ..." : format_.padded(base + std::size_t(indices[k]));
    }
    return out + "]";
  }

  Values values_;
  bool short_;
  Format format_;
};

// ---- what follows the values

std::string sizes(const Shape& shape) {
  return str("size=", shape);
}

std::vector<std::string> suffixes(const Tensor& t) {
  std::vector<std::string> list;
  if (t.device() != thread_state().default_device) {
    list.push_back(str("device='", t.device(), "'"));
  }
  const DType dtype = t.dtype();
  if (t.numel() == 0 && t.dim() != 1) list.push_back(sizes(t.shape()));
  const bool evident = dtype == DType::float32 ||
                       (t.numel() > 0 && (dtype == DType::int64 || dtype == DType::boolean));
  if (!evident) list.push_back(str("dtype=", dtype));
  if (t.impl()->node) {
    list.push_back(str("grad_fn=<", t.impl()->node->name, ">"));
  } else if (t.requires_grad()) {
    list.emplace_back("requires_grad=True");
  }
  return list;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "tensor(undefined)";
  const std::string prefix = "tensor(";
  std::string s = prefix + (t.numel() > 0 ? Printer(t.array()).body(prefix.size()) : "[]");
  const std::size_t line_start = s.rfind('\n');
  std::size_t line = line_start == std::string::npos ? s.size() + 2 : s.size() - line_start + 1;
  for (const std::string& suffix : suffixes(t)) {
    if (line + suffix.size() + 2 > kLine) {
      s += line_break(1, prefix.size()) + suffix;
      line = prefix.size() + suffix.size();
    } else {
      s += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return out << s << ")";
}

}  // namespace tandem
