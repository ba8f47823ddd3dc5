#include "command_line.h"

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

struct CommandLine::Parser {
  CLI::App app;

  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& help) {
    return app.add_option(name, value, help)->capture_default_str();
  }
};

CommandLine::CommandLine(const std::string& description) : parser_(std::make_unique<Parser>()) {
  parser_->app.description(description);
}
CommandLine::~CommandLine() = default;

void CommandLine::add(const std::string& name, std::string& value, const std::string& help,
                      const std::vector<std::string>& choices) {
  CLI::Option* option = parser_->add(name, value, help);
  if (!choices.empty()) option->check(CLI::IsMember(choices));
}
void CommandLine::add(const std::string& name, std::int64_t& value, const std::string& help) {
  parser_->add(name, value, help)->check(CLI::Range(1, 1000000));
}
void CommandLine::add(const std::string& name, int& value, const std::string& help) {
  parser_->add(name, value, help)->check(CLI::Range(1, 1000000));
}
void CommandLine::add(const std::string& name, double& value, const std::string& help) {
  parser_->add(name, value, help);
}
void CommandLine::add(const std::string& name, std::uint64_t& value, const std::string& help) {
  parser_->add(name, value, help);
}
void CommandLine::add_flag(const std::string& name, bool& value, const std::string& help) {
  parser_->app.add_flag(name, value, help);
}

int CommandLine::run(int argc, char** argv, const std::function<int()>& work) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return parser_->app.exit(e);
  }
  try {
    return work();
  } catch (const std::exception& e) {
    const std::string program = argv[0];
    std::cerr << program.substr(program.rfind('/') + 1) << ": " << e.what() << "\n";
    return 1;
  }
}

std::vector<tandem::Device> devices_named(const std::string& text) {
  using namespace tandem;
  const bool cuda_wanted = text.find("cuda") != std::string::npos;
  if (!cuda_wanted || device_count(cuda) > 0) return parse_devices(text);
  const auto count = 1 + std::count(text.begin(), text.end(), ',');
  const std::vector<Device> instead = parse_devices(std::to_string(count));
  static const bool told = [&] {
    std::cerr << "no CUDA device (" << cuda_unavailable_reason() << "): running on "
              << instead.front();
    if (count > 1) std::cerr << " to " << instead.back();
    std::cerr << "\n";
    return true;
  }();
  (void)told;
  return instead;
}
