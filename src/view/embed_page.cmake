# Writes the sources of the HTML page into a C++ file:
#   cmake -D folder=page -D scripts=a.js,b.js -D output=page_sources.cc -P embed_page.cmake
# A raw string for each file: compilers need not take one of more than 64 KB.

function(append_literal file)
  file(READ "${folder}/${file}" text)
  string(FIND "${text}" ")PAGE\"" clash)
  if(NOT clash EQUAL -1)
    message(FATAL_ERROR "${file} holds )PAGE\", which ends its string")
  endif()
  set(code "${code}\n    R\"PAGE(${text})PAGE\"" PARENT_SCOPE)
endfunction()

set(code "// Made from src/view/page by embed_page.cmake.\n")
string(APPEND code "#include \"view/page_sources.h\"\n\nnamespace headwise::view {\n\n")

string(APPEND code "const std::string_view kPageHtml =")
append_literal(page.html)
string(APPEND code ";\n\nconst std::string_view kPageStyle =")
append_literal(page.css)

# One scope for all scripts: they share their top-level names with each other and with nobody else.
string(APPEND code ";\n\nconst std::string_view kPageScript =\n    \"\\\"use strict\\\";\\n(() => {\\n\"")
string(REPLACE "," ";" scripts "${scripts}")
foreach(script IN LISTS scripts)
  append_literal(${script})
endforeach()
string(APPEND code "\n    \"})();\\n\";\n\n}  // namespace headwise::view\n")

file(WRITE "${output}" "${code}")
