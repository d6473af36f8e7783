// Checks that every descriptor has one text and every text one descriptor.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/operator.hpp"

namespace cubit::tests {

/// Checks that every descriptor has a unique text, and that the text is canonical and parses back to the descriptor.
/// `texts` holds the texts seen so far; the function adds the new ones.
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
