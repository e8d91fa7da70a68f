#pragma once
// What an action says when it fails, as tests expect it to.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "osdn/core/error.h"

namespace osdn::test {

/// The message of the Error that `action` throws, whose code has to be
/// `expected`; a failure if it throws none.
inline std::string message_of(const std::function<void()>& action,
                              ExitCode expected) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace osdn::test
