package lua

import _ "embed" // for the script

//go:embed inspect/check.lua
var inspectCheck string

// InspectCheck tries the commands that scripts use; see inspect/check.lua.
var InspectCheck = newScript("inspect/check", inspectCheck)
