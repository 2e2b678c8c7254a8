-- integer: the number that a string is for INCRBY and DECRBY. It is put before the
-- scripts that count, and does nothing by itself.
--
-- Returns nothing; the script that follows does.

-- integer returns the number that text is, or nil where INCRBY refuses it: beyond 64
-- bits, hexadecimal, with an exponent, a space or a zero in front, all of which tonumber
-- takes. Lua keeps it as a double.
local function integer(text)
  local digits = text == '0' and text or string.match(text, '^-?([1-9]%d*)$')
  if digits and (#digits < 19 or #digits == 19 and digits <= '9223372036854775807') then
    return tonumber(text)
  end
end

