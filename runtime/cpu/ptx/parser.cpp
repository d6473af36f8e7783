// Implements parse(): the directives of a module, each function's head, and its body (body.hpp). PTX ISA, "Directives".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/cpu/ptx/ast.hpp"
#include "runtime/cpu/ptx/body.hpp"
#include "runtime/cpu/ptx/declarations.hpp"
#include "runtime/cpu/ptx/lexer.hpp"
#include "runtime/cpu/ptx/literal.hpp"
#include "runtime/cpu/ptx/names.hpp"

namespace cubit::runtime::ptx {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 30;  // lines and indices are of type int

/// Directives between a function's parameters and its body that have integer arguments.
constexpr std::string_view kFunctionDirectives[] = {
    ".maxntid",           ".reqntid",        ".minnctapersm",    ".maxnctapersm", ".maxnreg",
    ".reqnctapercluster", ".maxclusterrank", ".explicitcluster", ".noreturn",
};

bool is_function_directive(const Token& token) {
  return std::find(std::begin(kFunctionDirectives), std::end(kFunctionDirectives), token.text) !=
         std::end(kFunctionDirectives);
}

class ModuleParser {
 public:
  ModuleParser(std::string_view text, Module& module) : lexer_(text), module_(module) {}
  void parse();

 private:
  void header();
  void version();
  void statement();
  Linkage linkage();
  void file();
  void skip_section();
  void variables(Space space, Linkage linkage);
  void function(const Token& directive, Linkage linkage);
  std::vector<Variable> parameters();
  void function_directives(Function& function);
  void declare(const Token& name, Function&& function);

  Lexer lexer_;
  Module& module_;
  ModuleNames names_;
  int registers_left_ = kMostRegisters;
};

void ModuleParser::parse() {
  header();
  while (lexer_.peek().kind != TokenKind::end) statement();
}

void ModuleParser::version() {
  const Token token = lexer_.expect(TokenKind::number, "a PTX version such as 9.0");
  const char* const last = token.text.data() + token.text.size();
  const auto major = std::from_chars(token.text.data(), last, module_.version_major);
  const bool has_minor = major.ec == std::errc() && major.ptr != last && *major.ptr == '.';
  const auto minor = has_minor ? std::from_chars(major.ptr + 1, last, module_.version_minor) : major;
  if (!has_minor || minor.ec != std::errc() || minor.ptr != last) Lexer::fail(token, "a PTX version is major.minor");
}

void ModuleParser::header() {
  if (!lexer_.accept(".version")) Lexer::fail(lexer_.peek(), "PTX begins with .version");
  version();
  if (!lexer_.accept(".target")) Lexer::fail(lexer_.peek(), ".target follows .version");
  module_.target = lexer_.expect(TokenKind::name, "a target such as sm_90a").text;
  while (lexer_.accept(',')) lexer_.expect(TokenKind::name, "a target option");
  if (!lexer_.accept(".address_size")) return;
  const Token size = lexer_.peek();
  module_.address_size = static_cast<int>(take_count(lexer_, "an address size", 64));
  if (module_.address_size != 64) Lexer::refuse(size, "only 64-bit addresses are read", "accepted: .address_size 64");
}

Linkage ModuleParser::linkage() {
  if (lexer_.accept(".visible")) return Linkage::visible;
  if (lexer_.accept(".extern")) return Linkage::external;
  if (lexer_.accept(".weak")) return Linkage::weak;
  if (lexer_.accept(".common")) return Linkage::common;
  return Linkage::internal;
}

void ModuleParser::statement() {
  const Linkage seen = linkage();
  Space space;
  if (accept_space(lexer_, space)) return variables(space, seen);
  const Token token = lexer_.expect(TokenKind::dotted, "a directive");
  if (token.is(".entry") || token.is(".func")) return function(token, seen);
  if (token.is(".file")) return file();
  if (token.is(".section")) return skip_section();
  if (token.is(".pragma")) {
    lexer_.expect(TokenKind::string, "a string");
    return lexer_.expect(';');
  }
  Lexer::refuse(token, "this directive is not read at module scope",
                "known: .entry .func .global .const .shared .file .section .pragma");
}

void ModuleParser::file() {
  constexpr int kLargest = std::numeric_limits<int>::max();
  SourceFile entry;
  entry.number = static_cast<int>(take_count(lexer_, "a file number", kLargest));
  const Token path = lexer_.expect(TokenKind::string, "a path in quotes");
  entry.path = path.text.substr(1, path.text.size() - 2);
  for (int i = 0; i < 2 && lexer_.accept(','); ++i)
    take_count(lexer_, "a time or a size", std::numeric_limits<std::int64_t>::max());
  module_.files.push_back(entry);
}

/// A section holds DWARF as numbers and labels between braces. .loc and .file carry all information that is needed
/// here.
void ModuleParser::skip_section() {
  lexer_.expect(TokenKind::dotted, "the name of a section");
  const Token open = lexer_.peek();
  lexer_.expect('{');
  while (!lexer_.accept('}')) {
    if (lexer_.peek().kind == TokenKind::end) Lexer::fail(open, "this brace is not closed");
    if (lexer_.take().is('{')) Lexer::fail(open, "a section holds no braces");
  }
}

void ModuleParser::variables(Space space, Linkage linkage) {
  if (space == Space::param || space == Space::local) {
    Lexer::refuse(lexer_.peek(), "variables of module scope are .global, .const or .shared");
  }
  const Variable type = take_type(lexer_, space);
  do {
    Variable variable = type;
    variable.linkage = linkage;
    const Token name = take_declarator(lexer_, variable);
    if (lexer_.accept('=')) take_initialiser(lexer_, variable, names_);
    const SymbolOperand symbol{SymbolKind::global, static_cast<int>(module_.variables.size())};
    if (!names_.emplace(name.text, symbol).second) Lexer::fail(name, "this name is declared twice");
    module_.variables.push_back(std::move(variable));
  } while (lexer_.accept(','));
  lexer_.expect(';');
}

std::vector<Variable> ModuleParser::parameters() {
  std::vector<Variable> list;
  lexer_.expect('(');
  if (lexer_.accept(')')) return list;
  do {
    if (!lexer_.accept(".param")) Lexer::refuse(lexer_.peek(), "only .param parameters are read");
    Variable variable = take_type(lexer_, Space::param);
    take_declarator(lexer_, variable);
    list.push_back(std::move(variable));
  } while (lexer_.accept(','));
  lexer_.expect(')');
  return list;
}

void ModuleParser::function_directives(Function& function) {
  while (lexer_.peek().kind == TokenKind::dotted) {
    const Token token = lexer_.take();
    if (token.is(".pragma")) {
      lexer_.expect(TokenKind::string, "a string");
      lexer_.expect(';');
      continue;
    }
    if (!is_function_directive(token)) Lexer::refuse(token, "this directive is not read before a function's body");
    Directive directive{token.text.substr(1), {}};
    if (lexer_.peek().kind == TokenKind::number) {
      do {
        directive.values.push_back(take_count(lexer_, "a limit", std::numeric_limits<std::int32_t>::max()));
      } while (lexer_.accept(','));
    }
    function.directives.push_back(std::move(directive));
  }
}

/// A definition replaces its earlier declaration, so that calls in between keep their index.
void ModuleParser::declare(const Token& name, Function&& function) {
  const SymbolOperand symbol{SymbolKind::function, static_cast<int>(module_.functions.size())};
  const auto [known, is_new] = names_.emplace(name.text, symbol);
  if (is_new) {
    module_.functions.push_back(std::move(function));
    return;
  }
  if (known->second.kind != SymbolKind::function) Lexer::fail(name, "this name is declared twice");
  Function& earlier = module_.functions[known->second.index];
  if (earlier.is_defined && function.is_defined) Lexer::fail(name, "this function is defined twice");
  if (!earlier.is_defined) earlier = std::move(function);
}

void ModuleParser::function(const Token& directive, Linkage linkage) {
  Function function;
  function.is_entry = directive.is(".entry");
  function.linkage = linkage;
  if (!function.is_entry && lexer_.peek().is('(')) function.results = parameters();
  const Token name = lexer_.expect(TokenKind::name, "the name of a function");
  function.name = name.text;
  function.ptx_line = name.line;
  if (lexer_.peek().is('(')) function.parameters = parameters();
  function_directives(function);
  if (lexer_.accept(';')) return declare(name, std::move(function));
  // The function is declared first, because its body may call it.
  Function declaration = function;
  declare(name, std::move(declaration));
  function.is_defined = true;
  BodyParser(lexer_, function, names_, registers_left_).parse();
  declare(name, std::move(function));
}

}  // namespace

Module parse(std::string text) {
  if (text.size() > kLongestText) {
    throw Failure(Status::unsupported, fmt::format("PTX text of {} bytes", text.size()), "at most 1 GiB is read");
  }
  Module module;
  module.text = std::make_shared<const std::string>(std::move(text));
  ModuleParser(*module.text, module).parse();
  return module;
}

}  // namespace cubit::runtime::ptx
