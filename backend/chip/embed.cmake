# Writes OUT: one line `CHIP("name", R"chip(...)chip")` for each file of FILES.
set(text "")
foreach(f ${FILES})
  get_filename_component(name ${f} NAME_WE)
  file(READ ${f} content)
  string(APPEND text "CHIP(\"${name}\", R\"chip(${content})chip\")\n")
endforeach()
file(WRITE ${OUT} "${text}")
