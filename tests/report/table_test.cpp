#include "osdn/report/table.h"

#include <gtest/gtest.h>

#include "osdn/core/error.h"

namespace osdn::report {
namespace {

TEST(Table, aligns_columns_by_code_points) {
  Table table({{"task", Align::kLeft}, {"value"}, {"note", Align::kLeft}});
  table.add_row({"ppl", "28.5003", "ok"});
  table.add_row({"q_geö", "0.265", ""});
  EXPECT_EQ(table.text(),
            "task     value  note\n"
            "-----  -------  ----\n"
            "ppl    28.5003  ok\n"
            "q_geö    0.265\n");
  EXPECT_EQ(table.rows(), 2U);
}

TEST(Table, refuses_a_row_of_another_length) {
  Table table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), Error);
  EXPECT_THROW(table.add_row({"1", "2", "3"}), Error);
}

}  // namespace
}  // namespace osdn::report
