#include <filesystem>
#include <fstream>
#include <sstream>

#include <tandem/core/error.h>
#include <tandem/data/file.h>

#ifdef TANDEM_ZLIB
#include <zlib.h>
#endif

namespace tandem::data {

std::string read_file(const std::string& path, const char* op) {
  std::error_code ignored;
  check(!std::filesystem::is_directory(path, ignored), "[", op, "] '", path,
        "' is a folder, not a file");
  std::ifstream file(path, std::ios::binary);
  check(file.is_open(), "[", op, "] cannot open '", path, "'");
  std::ostringstream text;
  text << file.rdbuf();
  check(!file.bad() && (text.good() || text.str().empty()), "[", op, "] cannot read '", path, "'");
  std::string bytes = std::move(text).str();
  if (!bytes.starts_with("\x1f\x8b")) return bytes;  // not gzip

#ifdef TANDEM_ZLIB
  bytes.clear();
  const gzFile packed = gzopen(path.c_str(), "rb");
  check(packed != nullptr, "[", op, "] cannot open '", path, "'");
  char piece[1 << 16];
  int count = 0;
  while ((count = gzread(packed, piece, sizeof piece)) > 0) bytes.append(piece, std::size_t(count));
  // A file that was cut off reads as a success; only closing tells.
  const bool complete = gzclose(packed) == Z_OK && count == 0;
  check(complete, "[", op, "] '", path, "' is a damaged gzip file");
  return bytes;
#else
  throw UsageError(str("[", op, "] '", path,
                       "' is a gzip file, and Tandem was built without zlib. Unpack it first"));
#endif
}

}  // namespace tandem::data
