package report

import (
	"fmt"
	"os"
	"strings"
)

// Insert puts text into a document, in the place of what command has put there
// last: between two lines that name the part.
func Insert(path, part, command, text string) error {
	begin := fmt.Sprintf("<!-- %s: begin; written by %s -write -->", part, command)
	end := fmt.Sprintf("<!-- %s: end -->", part)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no place for this: the lines %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n\n"+strings.TrimSpace(text)+"\n\n"+end+after), 0o644)
}
