package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/latchkey-go/latchkey/cmd/latchkey/internal/terminal"
)

func newVersion() *cobra.Command {
	out := new(terminal.Printer)
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this command",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out.To(cmd.OutOrStdout())
			v := newVersionInfo()
			return out.Show(v, func() { out.Printf("%s\n", v) })
		},
	}
	terminal.JSONVar(cmd, out)
	return cmd
}

// release is the version of a release binary, set by the linker. It is empty
// for other binaries, whose version the go command has recorded.
var release string

// A versionInfo is what the go command has recorded in the binary.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionInfo() versionInfo {
	v := versionInfo{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	if release != "" {
		v.Version = release
	}
	return v
}

// String returns the version on one line.
func (v versionInfo) String() string {
	text := "latchkey " + v.Version
	if v.Revision != "" {
		text += " " + v.Revision
	}
	return text + " " + v.Go + " " + v.Platform
}
