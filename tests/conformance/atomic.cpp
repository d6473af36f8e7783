// Cases of atom and red: the returned values and the final memory. PTX ISA, "atom", "red".
#include <fmt/format.h>

#include "tests/conformance/elementwise.hpp"

namespace cubit::conformance {
namespace {

struct Form {
  const char* operation;  ///< "add"
  const char* type;       ///< "f16x2"
  int bits;
  const char* format;  ///< format of floats
};
constexpr Form kForms[] = {{"add", "u32", 32, ""},
                           {"add", "s32", 32, ""},
                           {"add", "u64", 64, ""},
                           {"add", "f32", 32, "f32"},
                           {"add", "f64", 64, "f64"},
                           {"add.noftz", "f16", 16, "f16"},
                           {"add.noftz", "f16x2", 32, "f16"},
                           {"add.noftz", "bf16", 16, "bf16"},
                           {"add.noftz", "bf16x2", 32, "bf16"},
                           {"min", "u32", 32, ""},
                           {"min", "s32", 32, ""},
                           {"min", "u64", 64, ""},
                           {"min", "s64", 64, ""},
                           {"max", "u32", 32, ""},
                           {"max", "s32", 32, ""},
                           {"max", "u64", 64, ""},
                           {"max", "s64", 64, ""},
                           {"and", "b32", 32, ""},
                           {"and", "b64", 64, ""},
                           {"or", "b32", 32, ""},
                           {"or", "b64", 64, ""},
                           {"xor", "b32", 32, ""},
                           {"xor", "b64", 64, ""},
                           {"inc", "u32", 32, ""},
                           {"dec", "u32", 32, ""},
                           {"exch", "b32", 32, ""},
                           {"exch", "b64", 64, ""},
                           {"cas", "b16", 16, ""},
                           {"cas", "b32", 32, ""},
                           {"cas", "b64", 64, ""}};

Rows rows_of(const Form& form) {
  const std::string_view format = form.format;
  if (!format.empty()) {
    Rows rows = with_random_floats(combinations(float_corners(format), 2), format, 512, 6, 101);
    if (form.type[std::string_view(form.type).size() - 2] != 'x') return rows;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& other = rows[(i * 7 + 3) % rows.size()];
      rows[i] = {rows[i][0] | (other[0] & 0xffff) << 16, rows[i][1] | (other[1] & 0xffff) << 16, 0, 0};
    }
    return rows;
  }
  Rows rows = with_random(combinations(integer_corners(form.bits), 2), 64, 102);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i][2] = 0x1234567890abcdef * (i + 1);
    if (i % 3 == 0) rows[i][1] = rows[i][0];  // a comparison that is true
  }
  return rows;
}

Rule rule_of(const Form& form) {
  if (form.format[0] == 0) return {};
  return {.kind = Rule::Kind::number, .format = form.format};
}

/// Every thread has its own place in shared or global memory.
void own_place(Cases& cases, const Form& form, const std::string& space) {
  const bool shared = space == ".shared";
  const int bytes = form.bits / 8;
  const Rows rows = rows_of(form);
  const std::string address = shared ? fmt::format("mov.u32 %r0, place; mad.lo.u32 %r0, %t, {}, %r0;", bytes)
                                     : fmt::format("mov.u64 %d0, place; mad.wide.u32 %d0, %i, {}, %d0;", bytes);
  const char* name = shared ? "%r0" : "%d0";
  const std::string swap = form.operation[0] == 'c' ? ", %a2" : "";
  const std::string declaration = fmt::format(".{} .align 16 .b8 place[{}];", shared ? "shared" : "global",
                                              shared ? 32 * bytes : (static_cast<int>(rows.size()) + 32) * bytes);
  const std::string where = shared ? "shared" : "global";
  for (const char* root : {"atom", "red"}) {
    const bool returns = root[0] == 'a';
    const bool has_red = form.operation[0] != 'c' && form.operation[0] != 'e';
    if (!returns && !has_red) continue;
    const std::string opcode = fmt::format("{}{}.{}.{}", root, space, form.operation, form.type);
    add(cases,
        {.name = opcode,
         .body =
             fmt::format("{} st.{}.b{} [{}], %a0; {} {}[{}], %a1{}; ld.{}.b{} %z{}, [{}];", address, where, form.bits,
                         name, opcode, returns ? "%z0, " : "", name, swap, where, form.bits, returns ? 1 : 0, name),
         .sources = {bytes, bytes, bytes},
         .results = std::vector<int>(returns ? 2 : 1, bytes),
         .rule = rule_of(form),
         .declarations = declaration},
        rows);
  }
}

/// All threads of a block use the same place. The final value does not depend on their order.
void shared_place(Cases& cases) {
  for (const char* form :
       {"add.u32", "add.u64", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32", "max.s64"}) {
    const int bits = std::stoi(std::string(form).substr(std::string(form).size() - 2));
    for (const char* root : {"red", "atom"}) {
      const std::string opcode = fmt::format("{}.shared.{}", root, form);
      const std::string old = root[0] == 'a' ? fmt::format("%{}9, ", bits == 64 ? 'd' : 'r') : "";
      add(cases,
          {.name = opcode + " of one place",
           .body = fmt::format("st.shared.b{0} [place], %a1; bar.sync 0; {1} {2}[place], %a0; bar.sync 0; "
                               "ld.shared.b{0} %z0, [place];",
                               bits, opcode, old),
           .sources = {bits / 8, bits / 8},
           .results = {bits / 8},
           .declarations = ".shared .align 8 .b8 place[8];",
           .threads = 128},
          [&] {
            Rows rows = with_random({}, 256, 103);
            for (Row& row : rows) {
              row[1] = 0x1234567;
              if (form[0] == 'i' && form[1] == 'n') row[0] = 0x1234590;  // a limit that all threads share
            }
            return rows;
          }());
    }
  }
}

void scopes(Cases& cases) {
  for (const char* form :
       {"atom.relaxed.gpu.global.add.u32", "atom.acq_rel.gpu.global.add.u32", "atom.acquire.cta.global.cas.b32",
        "atom.release.sys.global.exch.b32", "atom.global.cta.add.u32", "atom.global.sys.max.s32", "atom.add.u32",
        "red.relaxed.gpu.global.add.u32", "red.release.gpu.global.add.u32", "red.add.u32"}) {
    const std::string opcode = form;
    const bool returns = opcode[0] == 'a';
    add(cases,
        {.name = opcode + " with scope",
         .body = fmt::format("mov.u64 %d0, place; mad.wide.u32 %d0, %i, 4, %d0; st.global.b32 [%d0], %a0; "
                             "{} {}[%d0], %a1{}; ld.global.b32 %z0, [%d0];",
                             opcode, returns ? "%r9, " : "", opcode.find("cas") != std::string::npos ? ", %a2" : ""),
         .sources = {4, 4, 4},
         .results = {4},
         .declarations = ".global .align 16 .b8 place[256];"},
        with_random({}, 64, 104));
  }
}

}  // namespace

void add_atomic(Cases& cases) {
  for (const Form& form : kForms) {
    for (const char* space : {".shared", ".global"}) own_place(cases, form, space);
  }
  shared_place(cases);
  scopes(cases);
}

}  // namespace cubit::conformance
