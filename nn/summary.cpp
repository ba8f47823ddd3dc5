// summary: watch one forward, put everything back, lay out the table.
#include <tandem/nn/summary.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iomanip>
#include <ostream>
#include <set>
#include <unordered_map>

#include <tandem/core/array_ops.h>
#include <tandem/core/ops/factories.h>
#include <tandem/core/random.h>
#include <tandem/core/thread_state.h>
#include <tandem/core/trace.h>

namespace tandem::nn {

namespace {

// ---- leaving the model as it was

/// What a forward may change in eval mode: buffers and settings that visit() names, random numbers.
struct Before {
  struct Buffer {
    Tensor handle;
    Array values;
    std::uint64_t version;
  };
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> settings;
  std::vector<bool> training;
  Generator::State random = default_generator().state();
  std::uint32_t random_calls = thread_state().random_calls;
};

/// Notes what is there, and sets eval mode.
struct Note final : Visitor {
  Before before;

  void on_tensor(Tensor& t, TensorKind kind) override {
    if (kind != TensorKind::buffer || !t.defined()) return;
    before.buffers.push_back({t, t.array().clone(), t.version()});
  }
  void on_setting(void* data, std::size_t bytes) override {
    const auto* first = static_cast<const std::byte*>(data);
    before.settings.emplace_back(first, first + bytes);
  }
  void on_enter(Module& m) override {
    before.training.push_back(m.training);
    m.training = false;
  }
};

/// Meets the same things in the same order.
struct PutBack final : Visitor {
  const Before& before;
  std::size_t buffer = 0, setting = 0, module = 0;

  explicit PutBack(const Before& b) : before(b) {}
  void on_tensor(Tensor& t, TensorKind kind) override {
    if (kind != TensorKind::buffer || !t.defined() || buffer == before.buffers.size()) return;
    const Before::Buffer& b = before.buffers[buffer++];
    t = b.handle;
    if (t.version() == b.version) return;
    Array values = t.array();
    copy(values, b.values);
  }
  void on_setting(void* data, std::size_t bytes) override {
    if (setting == before.settings.size()) return;
    const std::vector<std::byte>& saved = before.settings[setting++];
    if (saved.size() == bytes) std::copy(saved.begin(), saved.end(), static_cast<std::byte*>(data));
  }
  void on_enter(Module& m) override {
    if (module < before.training.size()) m.training = before.training[module++];
  }
};

void put_back(Module& model, const Before& before) {
  PutBack visitor(before);
  visitor.walk(model);
  thread_state().random_calls = before.random_calls;
  const Generator::State now = default_generator().state();
  if (now.words != before.random.words || now.next != before.random.next ||
      now.has_normal != before.random.has_normal) {
    default_generator().set_state(before.random);
  }
}

// ---- watching

/// What visit() says of each module.
struct Parts final : Visitor {
  struct Part {
    std::string name;
    std::vector<Tensor> parameters;  // its own, not those of modules below
  };
  std::unordered_map<const Module*, Part> parts;
  std::vector<const Module*> open;

  void on_tensor(Tensor& t, TensorKind kind) override {
    if (kind == TensorKind::parameter && t.defined()) parts[open.back()].parameters.push_back(t);
  }
  void on_enter(Module& m) override {
    parts.try_emplace(&m, Part{path(), {}});  // its first name, as named_parameters()
    open.push_back(&m);
  }
  void on_leave(Module&) override { open.pop_back(); }
};

class Recorder final : public LayerObserver {
 public:
  explicit Recorder(Module& model) { parts_.walk(model); }

  void on_call(Module& module, const Tensor&) override {
    SummaryRow row{.type = module.describe(), .depth = int(open_.size())};
    row.type = row.type.substr(0, row.type.find('('));
    if (const auto part = parts_.parts.find(&module); part != parts_.parts.end()) {
      row.name = part->second.name;
      count_parameters(part->second.parameters, row);
    }
    open_.push_back({&module, rows.size(), trace::flops()});
    rows.push_back(std::move(row));
  }

  void on_return(Module& module, const Tensor& y) override {
    while (open_.back().module != &module) open_.pop_back();  // left by an exception
    const Call call = open_.back();
    open_.pop_back();
    const std::int64_t flops = trace::flops() - call.flops_before;
    if (!open_.empty()) open_.back().flops_inside += flops;
    SummaryRow& row = rows[call.row];
    row.flops = flops - call.flops_inside;
    row.output = y.shape();
    if (call.row + 1 == rows.size()) output_bytes += y.array().nbytes();
  }

  std::vector<SummaryRow> rows;
  std::int64_t output_bytes = 0;

 private:
  struct Call {
    const Module* module;
    std::size_t row;
    std::int64_t flops_before;
    std::int64_t flops_inside = 0;  // of the calls inside this one
  };

  void count_parameters(const std::vector<Tensor>& parameters, SummaryRow& row) {
    bool any_new = false;
    for (const Tensor& p : parameters) {
      if (!counted_.insert(p.impl().get()).second) continue;
      any_new = true;
      row.parameters += p.numel();
    }
    row.counted_before = !parameters.empty() && !any_new;
  }

  Parts parts_;
  std::set<const TensorImpl*> counted_;
  std::vector<Call> open_;
};

// ---- the table

/// 1234567 -> "1,234,567"
std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  for (int i = int(text.size()) - 3; i > 0; i -= 3) text.insert(std::size_t(i), 1, ',');
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return str(bytes, " bytes");
  const bool large = bytes >= 1 << 20;
  return str(std::fixed, std::setprecision(1), double(bytes) / (large ? 1 << 20 : 1 << 10),
             large ? " MiB" : " KiB");
}

/// "  conv1: Conv2d": indented by depth, the name without that of the row around it.
std::string label(const SummaryRow& row, const std::string& around) {
  std::string name = row.name;
  if (!around.empty() && name.starts_with(around + ".")) name.erase(0, around.size() + 1);
  return std::string(std::size_t(2 * row.depth), ' ') + name + (name.empty() ? "" : ": ") +
         row.type;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Summary& s) {
  using Line = std::array<std::string, 4>;
  std::vector<Line> lines{{"layer", "output", "parameters", "FLOPs"}};
  std::vector<std::string> names;  // of the rows around this one
  for (const SummaryRow& row : s.rows) {
    names.resize(std::size_t(row.depth));
    const std::string parameters = row.counted_before    ? "above"
                                   : row.parameters == 0 ? "-"
                                                         : grouped(row.parameters);
    lines.push_back({label(row, names.empty() ? "" : names.back()), str(row.output), parameters,
                     row.flops == 0 ? "-" : grouped(row.flops)});
    names.push_back(row.name);
  }

  std::array<std::size_t, 4> width{};
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < 4; ++i) width[i] = std::max(width[i], line[i].size());
  }
  const auto cell = [&](std::size_t i) { return std::setw(int(width[i])); };
  for (const Line& line : lines) {
    out << std::left << cell(0) << line[0] << "  " << cell(1) << line[1] << std::right << "  "
        << cell(2) << line[2] << "  " << cell(3) << line[3] << '\n';
  }
  out << "parameters: " << grouped(s.trainable + s.frozen) << " (" << grouped(s.trainable)
      << " trainable, " << grouped(s.frozen) << " frozen), " << bytes_text(s.parameter_bytes)
      << "; buffers " << bytes_text(s.buffer_bytes) << "; outputs " << bytes_text(s.output_bytes)
      << "\nFLOPs: " << grouped(s.flops) << " for an input of " << s.input
      << " (matrix products and convolutions, multiply and add counted each)\n";
  return out;
}

Summary summarize(Module& model, const Shape& input, const SummaryOptions& options,
                  const std::function<Tensor(const Tensor&)>& forward) {
  Summary s{.input = input};
  TensorOptions in{.dtype = options.dtype};
  for (const Tensor& p : model.parameters()) {
    if (!in.device) in.device = p.device();
    if (!in.dtype) in.dtype = p.dtype();
    (p.requires_grad() ? s.trainable : s.frozen) += p.numel();
    s.parameter_bytes += p.array().nbytes();
  }
  for (const Tensor& b : model.buffers()) s.buffer_bytes += b.array().nbytes();

  const NoGrad no_grad;
  const Tensor x = zeros(input, in);
  Note note;
  note.walk(model);
  const std::int64_t flops_before = trace::flops();
  try {
    Recorder recorder(model);
    forward(x);
    s.rows = std::move(recorder.rows);
    s.output_bytes = recorder.output_bytes;
  } catch (...) {
    put_back(model, note.before);
    throw;
  }
  s.flops = trace::flops() - flops_before;
  put_back(model, note.before);
  return s;
}

}  // namespace tandem::nn
