#include <tandem/optim/named_numbers.h>

#include <cmath>

#include <tandem/core/error.h>

namespace tandem::optim {

std::string NumberWriter::item(const char* name, std::size_t i) const {
  return str(prefix, name, '.', i);
}

void NumberWriter::operator()(const char* name, const PerGroup& x) {
  if (x.size() == 1) {
    numbers[prefix + name] = x[0];
    return;
  }
  for (std::size_t i = 0; i < x.size(); ++i) numbers[item(name, i)] = x[i];
}

void NumberReader::operator()(const char* name, PerGroup& x) {
  std::vector<double> list;
  const auto next = [&] { return str(prefix, name, '.', list.size()); };
  while (numbers.contains(next())) list.push_back(take(next()));
  x = list.empty() ? PerGroup(take(prefix + name)) : PerGroup(std::move(list));
}

double NumberReader::take(const std::string& name) {
  const auto number = numbers.extract(name);
  check(!number.empty(), "[load_state] the state has no \"", name, "\"");
  return number.mapped();
}

std::int64_t NumberReader::take_integer(const std::string& name) {
  const double x = take(name);
  check(std::trunc(x) == x && std::abs(x) < 0x1p53, "[load_state] \"", name,
        "\" is no whole number: ", x);
  return std::int64_t(x);
}

int NumberReader::take_flag(const std::string& name) {
  const double x = take(name);
  check(x == 0 || x == 1, "[load_state] \"", name, "\" is neither 0 nor 1: ", x);
  return int(x);
}

void NumberReader::check_all_taken() const {
  check(numbers.empty(), "[load_state] this schedule and optimizer have no \"",
        numbers.empty() ? "" : numbers.begin()->first, "\"");
}

}  // namespace tandem::optim
