# find_package(OneDNN): the target OneDNN::OneDNN, version 2.6 or newer. Installed too.
#
# Not through the library's own package file: Debian 12's insists on OpenCL, which nothing here needs.
# Only builds that run on OpenMP or on one thread count: core/cpu/onednn_kernel.h says why.
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(OneDNN_LIBRARY dnnl)
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)

set(OneDNN_VERSION)
if(OneDNN_INCLUDE_DIR)
  set(folder ${OneDNN_INCLUDE_DIR}/oneapi/dnnl)
  file(STRINGS ${folder}/dnnl_version.h lines REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(JOIN numbers "." OneDNN_VERSION)
  file(STRINGS ${folder}/dnnl_config.h lines REGEX "#define DNNL_CPU_THREADING_RUNTIME ")
  if(NOT lines MATCHES "DNNL_RUNTIME_(OMP|SEQ)")
    set(OneDNN_NOT_FOUND_MESSAGE "the library in ${OneDNN_INCLUDE_DIR} runs on threads of another kind")
    set(OneDNN_LIBRARY OneDNN_LIBRARY-NOTFOUND)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
                                  VERSION_VAR OneDNN_VERSION
                                  REASON_FAILURE_MESSAGE "${OneDNN_NOT_FOUND_MESSAGE}")
if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN UNKNOWN IMPORTED)
  set_target_properties(OneDNN::OneDNN PROPERTIES
    IMPORTED_LOCATION ${OneDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
