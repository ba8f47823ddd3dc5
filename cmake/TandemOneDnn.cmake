# oneDNN for the CPU's matrix products and convolutions: TANDEM_ONEDNN=AUTO (where it is found), ON or
# OFF. Without it core/cpu/no_onednn.cpp takes the place of the files that use it.
set(TANDEM_ONEDNN AUTO CACHE STRING "Matrix products and convolutions through oneDNN: AUTO, ON or OFF")
set_property(CACHE TANDEM_ONEDNN PROPERTY STRINGS AUTO ON OFF)

set(OneDNN_FOUND FALSE)
if(TANDEM_ONEDNN STREQUAL "AUTO")
  find_package(OneDNN 2.6 QUIET)
elseif(TANDEM_ONEDNN)
  find_package(OneDNN 2.6 REQUIRED)
endif()

if(OneDNN_FOUND)
  message(STATUS "oneDNN ${OneDNN_VERSION}: ${OneDNN_LIBRARY}")
  list(FILTER tandem_sources EXCLUDE REGEX "core/cpu/no_onednn\\.cpp$")
  set_source_files_properties(core/numerics.cpp PROPERTIES COMPILE_DEFINITIONS TANDEM_ONEDNN)
else()
  message(STATUS "No oneDNN: Eigen does all of the CPU's products (tools/setup.sh installs it)")
  list(FILTER tandem_sources EXCLUDE REGEX "core/cpu/onednn[^/]*\\.cpp$")
endif()
