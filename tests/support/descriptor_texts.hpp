// Descriptors and their texts: one of each.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/operator.hpp"

namespace cubit::tests {

/// Every descriptor has a text of its own, which parses back to it and is its canonical one. `texts`: those seen
/// before, to which these are added.
template <class Descriptors, class Parse>
void expect_one_text_each(const Descriptors& descriptors, Parse parse, std::set<std::string>& texts) {
  for (const auto& descriptor : descriptors) {
    const std::string text = descriptor.text();
    EXPECT_TRUE(texts.insert(text).second) << text << " stands for two values";
    EXPECT_EQ(parse(text), descriptor) << text;
    EXPECT_EQ(ops::find_operator(text).canonical(text), text);
  }
}
template <class Descriptors, class Parse>
void expect_one_text_each(const Descriptors& descriptors, Parse parse) {
  std::set<std::string> texts;
  expect_one_text_each(descriptors, parse, texts);
}

}  // namespace cubit::tests
