# cmake -DOUT=FILE -DHEADER=H -DNAMESPACE=N -DTEXTS=name=path;... -P EmbedTexts.cmake: writes a source file with texts as
# constants of std::string_view. A text must not contain )INGOT".
set(source "// Made by cmake/EmbedTexts.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
foreach(pair ${TEXTS})
  string(FIND "${pair}" "=" at)
  string(SUBSTRING "${pair}" 0 ${at} name)
  math(EXPR after "${at} + 1")
  string(SUBSTRING "${pair}" ${after} -1 path)
  file(READ "${path}" text)
  string(APPEND source "const std::string_view ${name} = R\"INGOT(${text})INGOT\";\n")
endforeach()
string(APPEND source "\n}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUT}" "${source}")
