# Writes osdn_version.h (version and git commit) at every build. The file is
# touched only when its content changes, so a build without news compiles
# nothing; only src/core/version.cpp includes it.
#
# Included by CMakeLists.txt it adds the target; run as a script (cmake -P) it
# writes the file.

cmake_policy(VERSION 3.25)

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(osdn_version_folder "${CMAKE_BINARY_DIR}/generated")
  add_custom_target(osdn_version
    COMMAND "${CMAKE_COMMAND}"
      -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
      -DOUTPUT=${osdn_version_folder}/osdn_version.h
      -P "${CMAKE_CURRENT_LIST_FILE}"
    BYPRODUCTS "${osdn_version_folder}/osdn_version.h"
    COMMENT "")
  add_dependencies(osdn_core osdn_version)
  target_include_directories(osdn_core PRIVATE "${osdn_version_folder}")
  return()
endif()

set(commit "unknown")
find_program(git_program git)
if(git_program)
  # An unpacked archive inside some other checkout has no commit of its own.
  execute_process(
    COMMAND "${git_program}" rev-parse --show-cdup
    WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE cdup OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result ERROR_QUIET)
  if(result EQUAL 0 AND cdup STREQUAL "")
    execute_process(
      COMMAND "${git_program}" rev-parse --verify HEAD
      WORKING_DIRECTORY "${SOURCE}"
      OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE result ERROR_QUIET)
    if(result EQUAL 0)
      set(commit "${head}")
      # Without optional locks, so that no git command beside us is disturbed.
      execute_process(
        COMMAND "${git_program}" --no-optional-locks status --porcelain
          --untracked-files=no
        WORKING_DIRECTORY "${SOURCE}"
        OUTPUT_VARIABLE changes RESULT_VARIABLE result ERROR_QUIET)
      if(NOT changes STREQUAL "")
        string(APPEND commit "-dirty")
      endif()
    endif()
  endif()
endif()

file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT
"#pragma once
#define OSDN_VERSION \"@VERSION@\"
#define OSDN_COMMIT \"@commit@\"
")
