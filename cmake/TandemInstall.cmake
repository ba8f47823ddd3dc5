# Installing: the archive, the public headers under include/tandem, and a package for
# find_package(tandem). Nothing in it names where it was built, so the prefix may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(TARGETS tandem EXPORT tandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package})
if(TARGET tandem_cuda)  # apart from the others: who has no CUDA toolkit finds tandem::tandem all the same
  install(TARGETS tandem_cuda tandem_cuda_backend EXPORT tandemCudaTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT tandemCudaTargets NAMESPACE tandem:: DESTINATION ${package})
  install(FILES ${PROJECT_SOURCE_DIR}/core/cuda/register.cpp
          DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem)
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/TandemCudnn.cmake DESTINATION ${package})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tandemConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/tandemConfig.cmake
                              INSTALL_DESTINATION ${package}
                              NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake
              ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindOneDNN.cmake
        DESTINATION ${package})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
