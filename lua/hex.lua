-- hex: the text of the bytes of an id, as people see it. It is put before the scripts
-- that build the keys of labels of permits, and does nothing by itself.
--
-- Returns nothing; the script that follows does.

-- hex returns two hex digits for each byte of id.
local function hex(id)
  return string.format(string.rep('%02x', #id), string.byte(id, 1, -1))
end

