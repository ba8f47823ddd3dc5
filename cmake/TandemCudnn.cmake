# tandem::cudnn, for CMake has no CUDA::cudnn: header and library by hints. They may lie beside the
# toolkit, in the system's folders, or in CUDNN_ROOT (a variable of CMake or of the environment).
# Installed too: whoever finds tandem::cuda needs it.
if(TARGET tandem::cudnn)
  return()
endif()
set(cudnn_hints ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_LIBRARY_ROOT}
    ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_TARGET_DIR})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${cudnn_hints} PATH_SUFFIXES include ..)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cudnn_hints}
             PATH_SUFFIXES lib64 lib lib/x64 ../lib ../lib64)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
  add_library(tandem::cudnn UNKNOWN IMPORTED)
  set_target_properties(tandem::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
