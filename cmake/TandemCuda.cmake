# The CUDA backend: archive libtandem_cuda.a, target tandem::cuda. Included by the root after the
# library; without nvcc, or under a sanitizer (nvcc knows none), TANDEM_CUDA=AUTO leaves it out.
#
#   tandem_cuda_backend   the archive: no CUDA library is named, so that tests link the very same
#                         objects to the simulator (tests/cudasim)
#   tandem::cuda          the archive, the CUDA libraries, and core/cuda/register.cpp, which every
#                         program that links it compiles: so the backend is known before main()
if(TANDEM_CUDA STREQUAL "OFF" OR (TANDEM_CUDA STREQUAL "AUTO" AND TANDEM_SANITIZE))
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
find_package(CUDAToolkit QUIET)
include(TandemCudnn)
if(NOT CMAKE_CUDA_COMPILER OR NOT CUDAToolkit_FOUND OR NOT TARGET tandem::cudnn)
  set(level STATUS)
  if(TANDEM_CUDA STREQUAL "ON")
    set(level FATAL_ERROR)
  endif()
  message(${level} "No CUDA backend. nvcc: ${CMAKE_CUDA_COMPILER}, toolkit: ${CUDAToolkit_ROOT}, "
                   "cuDNN: ${CUDNN_LIBRARY} (CUDNN_ROOT says where to look)")
  return()
endif()

include(CudaLanguage)
set(TANDEM_CUDA_ARCHITECTURES "75-real;80-real;90" CACHE STRING "Of the CUDA backend's kernels")

file(GLOB cuda_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     core/cuda/*.cpp core/cuda/kernels/*.cu)
list(REMOVE_ITEM cuda_sources core/cuda/register.cpp)
add_library(tandem_cuda_backend STATIC ${cuda_sources})
tandem_flags(tandem_cuda_backend)
set_target_properties(tandem_cuda_backend PROPERTIES
  OUTPUT_NAME tandem_cuda EXPORT_NAME cuda_backend
  CUDA_ARCHITECTURES "${TANDEM_CUDA_ARCHITECTURES}" CUDA_STANDARD 20 CUDA_EXTENSIONS OFF)
target_link_libraries(tandem_cuda_backend PUBLIC tandem)
target_include_directories(tandem_cuda_backend SYSTEM PRIVATE
  ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})

# -fmad=false: see tandem_flags(). --no-compress: the simulator reads the PTX in the objects. Spills
# and local arrays are errors. What ptxas says of every kernel is kept beside the object.
set(ptxas -v,--warn-on-spills,--warn-on-local-memory-usage$<$<BOOL:${TANDEM_WERROR}>:,-Werror>)
target_compile_options(tandem_cuda_backend PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--no-compress;-Xptxas=${ptxas}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-fno-math-errno,-ffp-contract=off>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TANDEM_WERROR}>>:-Werror=all-warnings>")
set_target_properties(tandem_cuda_backend PROPERTIES
  CUDA_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/keep_ptxas.sh;${CMAKE_CUDA_COMPILER_LAUNCHER}")

add_library(tandem_cuda INTERFACE)
add_library(tandem::cuda ALIAS tandem_cuda)
set_target_properties(tandem_cuda PROPERTIES EXPORT_NAME cuda)
target_sources(tandem_cuda INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/cuda/register.cpp>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_DATADIR}/tandem/register.cpp>)
target_link_libraries(tandem_cuda INTERFACE
  tandem_cuda_backend CUDA::cudart CUDA::cublas tandem::cudnn)
