// The device templates as cmake/embed.cpp writes them: one zstd frame, whose text is the name and the text of each
// file, sorted by name. A zero byte ends each name and each text.
#pragma once

#include <cstddef>

namespace cubit::templates {

extern const unsigned char kEmbeddedFrame[];
extern const std::size_t kEmbeddedFrameBytes;

}  // namespace cubit::templates
