# cmake --install: programs, configurations, headers, and the area libraries
# as a CMake package (find_package(osdn), targets osdn::<area>).
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/osdn")
install(DIRECTORY include/osdn DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/osdn/configs"
  FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# osdn: all that is installed, and nothing else. Tests take longer to build.
add_custom_target(osdn)

get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
foreach(target IN LISTS targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY" AND target MATCHES "^osdn_")
    string(REGEX REPLACE "^osdn_" "" area ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${area})
    target_include_directories(${target} PUBLIC
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    install(TARGETS ${target} EXPORT osdnTargets
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
    add_dependencies(osdn ${target})
  elseif(type STREQUAL "EXECUTABLE" AND target MATCHES "^osdn-")
    add_dependencies(osdn ${target})
  endif()
endforeach()
install(EXPORT osdnTargets NAMESPACE osdn:: DESTINATION "${package_folder}")

configure_package_config_file(cmake/osdnConfig.cmake.in
  "${CMAKE_BINARY_DIR}/osdnConfig.cmake" INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/osdnConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/osdnConfig.cmake"
  "${CMAKE_BINARY_DIR}/osdnConfigVersion.cmake" cmake/FindLibTorch.cmake
  DESTINATION "${package_folder}")
