# tests/scripts/<name>_test.sh -> CTest scripts.<name>; exit code 77 = skipped.
file(GLOB tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/scripts/*_test.sh")
foreach(test IN LISTS tests)
  get_filename_component(name "${test}" NAME_WE)
  string(REGEX REPLACE "_test$" "" name "${name}")
  add_test(NAME scripts.${name} COMMAND bash "${test}")
  set_tests_properties(scripts.${name} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS "cpu;scripts"
    ENVIRONMENT "OSDN_SOURCE_DIR=${CMAKE_SOURCE_DIR};OSDN_BUILD_DIR=${CMAKE_BINARY_DIR};OSDN_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};CXX=${CMAKE_CXX_COMPILER}")
endforeach()
