// See operand.h.
#include "runtime/operand.h"

#include "ptx/small_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace cudasim {
namespace {

template <class T>
T take(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <class T>
void put(char* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

// Calls visit(pointer) for every index, the last dimension running fastest.
template <class Visit>
void for_each_element(const Operand& o, Visit&& visit) {
  if (o.empty()) return;
  const std::size_t rank = o.dims.size();
  const auto size = static_cast<std::int64_t>(size_of(o.type));
  std::vector<std::int64_t> index(rank, 0);
  std::int64_t offset = 0;
  for (;;) {
    visit(static_cast<const char*>(o.data) + offset * size);
    std::size_t d = rank;
    while (d > 0) {
      --d;
      offset += o.strides[d];
      if (++index[d] < o.dims[d]) break;
      offset -= o.dims[d] * o.strides[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (rank == 0) return;
  }
}

// TF32 keeps 10 of 23 mantissa bits; ties go away from zero (PTX: cvt.rna.tf32.f32).
double round_to_tf32(double value) {
  const auto x = static_cast<float>(value);
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

double round_input(Inputs inputs, double value) {
  switch (inputs) {
    case Inputs::exact:
      return value;
    case Inputs::tf32:
      return round_to_tf32(value);
    case Inputs::float16:
      return ptx::Half(value);
    case Inputs::bfloat16:
      return ptx::BFloat16(value);
  }
  return value;
}

struct Dimension {
  std::int64_t extent, stride;
};

// The dimensions that move through memory, the widest stride first, all strides positive; `base` is
// moved to the lowest address.
std::vector<Dimension> moving_dimensions(const Operand& o, const char*& base) {
  std::vector<Dimension> dims;
  for (std::size_t d = 0; d < o.dims.size(); ++d) {
    if (o.dims[d] == 1 || o.strides[d] == 0) continue;
    std::int64_t stride = o.strides[d];
    if (stride < 0) {
      base += (o.dims[d] - 1) * stride * static_cast<std::int64_t>(size_of(o.type));
      stride = -stride;
    }
    dims.push_back({o.dims[d], stride});
  }
  std::sort(dims.begin(), dims.end(),
            [](const auto& a, const auto& b) { return a.stride > b.stride; });
  return dims;
}

}  // namespace

std::size_t size_of(Real type) {
  switch (type) {
    case Real::float32:
      return 4;
    case Real::float16:
    case Real::bfloat16:
      return 2;
    case Real::float64:
      return 8;
  }
  return 0;
}

double load(Real type, const char* p) {
  switch (type) {
    case Real::float32:
      return take<float>(p);
    case Real::float16:
      return ptx::Half::load(take<std::uint16_t>(p));
    case Real::bfloat16:
      return ptx::BFloat16::load(take<std::uint16_t>(p));
    case Real::float64:
      return take<double>(p);
  }
  return 0;
}

void store(Real type, char* p, double value) {
  switch (type) {
    case Real::float32:
      return put(p, static_cast<float>(value));
    case Real::float16:
      return put(p, ptx::Half(value).bits);
    case Real::bfloat16:
      return put(p, ptx::BFloat16(value).bits);
    case Real::float64:
      return put(p, value);
  }
}

bool Operand::empty() const {
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

std::int64_t Operand::count() const {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<Run> runs_of(const Operand& o) {
  if (o.empty()) return {};
  const char* base = static_cast<const char*>(o.data);
  std::vector<Dimension> dims = moving_dimensions(o, base);
  std::int64_t length = 1;  // of a run, in elements: the inner dimensions that lie side by side
  while (!dims.empty() && dims.back().stride == length) {
    length *= dims.back().extent;
    dims.pop_back();
  }
  Operand outer{o.name, base, o.type, {}, {}, o.access};
  for (const Dimension& d : dims) {
    outer.dims.push_back(d.extent);
    outer.strides.push_back(d.stride);
  }
  std::vector<Run> runs;
  for_each_element(outer, [&](const char* p) { runs.push_back({p, length * size_of(o.type)}); });
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  return runs;
}

bool overlap(const std::vector<Run>& a, const std::vector<Run>& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char *a_end = a[i].begin + a[i].bytes, *b_end = b[j].begin + b[j].bytes;
    if (a[i].begin < b_end && b[j].begin < a_end) return true;
    a_end <= b_end ? ++i : ++j;
  }
  return false;
}

bool overlaps_itself(const Operand& o) {
  if (o.empty()) return false;
  for (std::size_t d = 0; d < o.dims.size(); ++d)
    if (o.strides[d] == 0 && o.dims[d] > 1) return true;
  const std::vector<Run> runs = runs_of(o);
  for (std::size_t i = 1; i < runs.size(); ++i)
    if (runs[i - 1].begin + runs[i - 1].bytes > runs[i].begin) return true;
  return false;
}

std::vector<double> read_all(const Operand& o, Inputs inputs) {
  std::vector<double> values;
  values.reserve(o.count());
  for_each_element(o,
                   [&](const char* p) { values.push_back(round_input(inputs, load(o.type, p))); });
  return values;
}

void write_all(const Operand& o, const std::vector<double>& values) {
  auto value = values.begin();
  for_each_element(o, [&](const char* p) { store(o.type, const_cast<char*>(p), *value++); });
}

void write_scaled(const Operand& o, std::vector<double> values, double alpha, double beta) {
  for (double& v : values) v *= alpha;
  if (beta != 0) {
    const std::vector<double> before = read_all(o);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += beta * before[i];
  }
  write_all(o, values);
}

}  // namespace cudasim
