// Collects what the checks object to: one finding per instruction and kind, with a count.
#pragma once

#include "ptx/program.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cudasim::ptx {

// Thrown after a fatal finding: the launch ends here.
struct Stop {};

class Findings {
 public:
  explicit Findings(const Program& program) : program_(program) {}

  // Is this one worth its sentence? Counts it either way.
  bool first(Check check, const Instruction& i) {
    auto [entry, added] = places_.try_emplace({i.index, check}, findings_.size());
    if (!added) ++findings_[entry->second].count;
    return added;
  }

  // REQUIRES: first(check, i) has just said yes.
  void add(Check check, const Instruction& i, const std::string& what) {
    const Source& source = program_.sources[i.index];
    findings_.push_back(
        {check, program_.name, what + ": " + source.text, source.line, source.source_line});
  }

  std::vector<Finding> take() { return std::move(findings_); }

 private:
  const Program& program_;
  std::vector<Finding> findings_;
  std::map<std::pair<std::uint32_t, Check>, std::size_t> places_;
};

}  // namespace cudasim::ptx
