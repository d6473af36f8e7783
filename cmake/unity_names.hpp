// Names that several source files define for themselves, for unity builds, which compile such files as one.
//
// Each name becomes another one in each file. A collision that a unity build reports is mended by a line here. A name
// that headers of the project declare cannot stand here: rename it.
#pragma once

#define CUBIT_UNITY_PASTE(name, file) name##_##file
#define CUBIT_UNITY_NAME(name, file) CUBIT_UNITY_PASTE(name, file)

#define exponent_bits CUBIT_UNITY_NAME(exponent_bits, CUBIT_UNITY_FILE)
#define is_word CUBIT_UNITY_NAME(is_word, CUBIT_UNITY_FILE)
#define kCellHeight CUBIT_UNITY_NAME(kCellHeight, CUBIT_UNITY_FILE)
#define kCellWidth CUBIT_UNITY_NAME(kCellWidth, CUBIT_UNITY_FILE)
#define kExamples CUBIT_UNITY_NAME(kExamples, CUBIT_UNITY_FILE)
#define kHead CUBIT_UNITY_NAME(kHead, CUBIT_UNITY_FILE)
#define kHelp CUBIT_UNITY_NAME(kHelp, CUBIT_UNITY_FILE)
#define kLeastScale CUBIT_UNITY_NAME(kLeastScale, CUBIT_UNITY_FILE)
#define kLeft CUBIT_UNITY_NAME(kLeft, CUBIT_UNITY_FILE)
#define kMargin CUBIT_UNITY_NAME(kMargin, CUBIT_UNITY_FILE)
#define kMostStages CUBIT_UNITY_NAME(kMostStages, CUBIT_UNITY_FILE)
#define kName CUBIT_UNITY_NAME(kName, CUBIT_UNITY_FILE)
#define kNan CUBIT_UNITY_NAME(kNan, CUBIT_UNITY_FILE)
#define kPlotHeight CUBIT_UNITY_NAME(kPlotHeight, CUBIT_UNITY_FILE)
#define kPlotLeft CUBIT_UNITY_NAME(kPlotLeft, CUBIT_UNITY_FILE)
#define kPlotTop CUBIT_UNITY_NAME(kPlotTop, CUBIT_UNITY_FILE)
#define kPlotWidth CUBIT_UNITY_NAME(kPlotWidth, CUBIT_UNITY_FILE)
#define kRegisterAlignment CUBIT_UNITY_NAME(kRegisterAlignment, CUBIT_UNITY_FILE)
#define kWidth CUBIT_UNITY_NAME(kWidth, CUBIT_UNITY_FILE)
#define make_block CUBIT_UNITY_NAME(make_block, CUBIT_UNITY_FILE)
#define round_up CUBIT_UNITY_NAME(round_up, CUBIT_UNITY_FILE)
#define times_of CUBIT_UNITY_NAME(times_of, CUBIT_UNITY_FILE)
