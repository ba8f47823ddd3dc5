// The command line of a sample: options with their defaults, --help, and errors as one line.
//
//   CommandLine line("Trains a small network on random data.");
//   line.add("--lr", options.lr, "Learning rate");
//   return line.run(argc, argv, [&] { return train(options); });
//
// CLI11 does the work, in command_line.cpp alone: it takes seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tandem/core/device.h>

class CommandLine {
 public:
  explicit CommandLine(const std::string& description);
  ~CommandLine();

  /// What `value` holds is the default. Counts are from 1 to a million, words one of `choices`.
  void add(const std::string& name, std::string& value, const std::string& help = "",
           const std::vector<std::string>& choices = {});
  void add(const std::string& name, std::int64_t& value, const std::string& help = "");
  void add(const std::string& name, int& value, const std::string& help = "");
  /// Any number; a seed.
  void add(const std::string& name, double& value, const std::string& help = "");
  void add(const std::string& name, std::uint64_t& value, const std::string& help = "");
  void add_flag(const std::string& name, bool& value, const std::string& help);

  /// Reads the options, then does the work. Returns the program's status: that of `work`, 1 with a
  /// message if it threw, or what --help and mistakes end with.
  int run(int argc, char** argv, const std::function<int()>& work);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// parse_devices(text), for --devices: "2", "cpu:0,cpu:3", "cuda" (all there are), "cuda:0,cuda:1".
/// Where there is no CUDA device, as many CPU devices take their place, and one line on standard
/// error says why.
std::vector<tandem::Device> devices_named(const std::string& text);
