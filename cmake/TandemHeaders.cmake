# Makes <tandem/core/tensor.h> work from the source tree: one symbolic link per public folder under
# build/include/tandem. Sets TANDEM_INCLUDE_DIR and TANDEM_PUBLIC_HEADERS.
set(TANDEM_INCLUDE_DIR ${CMAKE_CURRENT_BINARY_DIR}/include)
set(TANDEM_PUBLIC_HEADERS)
file(MAKE_DIRECTORY ${TANDEM_INCLUDE_DIR}/tandem)

foreach(folder core nn optim amp data io parallel)
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${folder} ${TANDEM_INCLUDE_DIR}/tandem/${folder}
       SYMBOLIC)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${folder}/*.h)
  list(FILTER headers EXCLUDE REGEX "^core/(cpu|cuda)/")  # private to a backend
  foreach(header ${headers})
    list(APPEND TANDEM_PUBLIC_HEADERS ${TANDEM_INCLUDE_DIR}/tandem/${header})
  endforeach()
endforeach()
# A copy, made again when it changes: installing would keep a link a link.
configure_file(tandem.h ${TANDEM_INCLUDE_DIR}/tandem/tandem.h COPYONLY)
list(APPEND TANDEM_PUBLIC_HEADERS ${TANDEM_INCLUDE_DIR}/tandem/tandem.h)
