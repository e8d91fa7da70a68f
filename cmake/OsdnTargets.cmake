# One library and one test program per area; the lists of an area's direct
# dependencies in the top CMakeLists.txt are the whole dependency plan.

# osdn_add_area(NAME [TORCH] [DEPS area...] [LIBS target...])
#   src/<area>/*.cpp -> library osdn_<area>; include/osdn/<area> is public.
#   Files named no_*.cpp are twins of optional parts and are picked by the
#   caller through EXCLUDE.
function(osdn_add_area area)
  cmake_parse_arguments(arg "TORCH" "" "DEPS;LIBS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${area}/*.cpp")
  foreach(name IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources "${CMAKE_SOURCE_DIR}/src/${area}/${name}")
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(osdn_${area} STATIC ${sources})
  target_include_directories(osdn_${area} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(osdn_${area} PUBLIC $<BUILD_INTERFACE:osdn_flags>)
  foreach(dep IN LISTS arg_DEPS)
    if(TARGET osdn_${dep})
      target_link_libraries(osdn_${area} PUBLIC osdn_${dep})
    endif()
  endforeach()
  target_link_libraries(osdn_${area} PRIVATE ${arg_LIBS})
  if(arg_TORCH)
    target_link_libraries(osdn_${area} PUBLIC LibTorch::cpu)
  endif()
endfunction()

# osdn_add_program(NAME DEPS area... [SOURCES file...]): src/apps/<name>.cpp
# (dashes become underscores), and more files beside it -> a program of that
# name, installed.
function(osdn_add_program name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS;SOURCES" ${ARGN})
  string(REPLACE "-" "_" file "${name}")
  set(source "${CMAKE_SOURCE_DIR}/src/apps/${file}.cpp")
  if(NOT EXISTS "${source}")
    return()
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${CMAKE_SOURCE_DIR}/src/apps/")
  add_executable(${name} "${source}" ${arg_SOURCES})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE osdn_flags CLI11::CLI11 ${arg_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    target_link_libraries(${name} PRIVATE osdn_${dep})
  endforeach()
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# osdn_add_tests(AREA [TORCH] [LIBS target...]): tests/<area>/*.cpp ->
# <area>_tests, one CTest entry per test. The target osdn_tests builds them all; a
# plain build does not.
function(osdn_add_tests area)
  cmake_parse_arguments(arg "TORCH" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${area}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(${area}_tests EXCLUDE_FROM_ALL ${sources})
  add_dependencies(osdn_tests ${area}_tests)
  target_include_directories(${area}_tests PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_definitions(${area}_tests PRIVATE
    OSDN_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    OSDN_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  # Quick to build; what takes time is in the libraries.
  target_compile_options(${area}_tests PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${area}_tests PRIVATE osdn_flags osdn_test_support
    ${arg_LIBS} GTest::gmock GTest::gtest_main)
  if(TARGET osdn_${area})
    target_link_libraries(${area}_tests PRIVATE osdn_${area})
  endif()
  set_target_properties(${area}_tests PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(${area}_tests
    TEST_PREFIX "${area}." NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
    # Tests run side by side; LibTorch's threads would spin for the same cores.
    # One value a property: this CMake takes lists here apart.
    PROPERTIES TIMEOUT 300 LABELS cpu ENVIRONMENT OMP_NUM_THREADS=1
      ENVIRONMENT_MODIFICATION GOMP_SPINCOUNT=set:1000)
endfunction()
