// Reading a whole file, plain or packed by gzip. What the readers of this folder begin with.
#pragma once

#include <string>

namespace tandem::data {

/// The bytes of a file, unpacked if they are gzip's, whatever the file is called. `op` begins the
/// messages. Throws UsageError: no such file, it cannot be read, a damaged gzip file, or a gzip
/// file while Tandem was built without zlib.
std::string read_file(const std::string& path, const char* op);

}  // namespace tandem::data
