#include "kernels/ptx_device.h"

#include <fstream>
#include <map>
#include <sstream>

namespace cudasim::ptx {

const Module& module_of(const std::string& file, const std::string& architecture) {
  static std::map<std::string, Module> modules;
  const std::string path = std::string(CUDASIM_PTX_DIR) + "/" + file + "." + architecture + ".ptx";
  const auto found = modules.find(path);
  if (found != modules.end()) return found->second;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("no file " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return modules[path] = parse(text.str());
}

std::string to_string(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) text += to_string(f) + "\n";
  return text;
}

}  // namespace cudasim::ptx
