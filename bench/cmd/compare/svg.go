package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// A drawing is an SVG under construction.
type drawing struct {
	strings.Builder
	y int
}

func (d *drawing) text(x, y int, class, s string) {
	fmt.Fprintf(d, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, html.EscapeString(s))
}

// svg returns the whole, as wide as that and as high as it has become.
func (d *drawing) svg(width int) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">
<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-weight: bold } .right { text-anchor: end } .middle { text-anchor: middle } .small { font-size: 10px; fill: #666 }
.floor { fill: #999 } .ours { fill: #1a7f4b } .peer { fill: #c9a227 }
.line { fill: none; stroke: #1a7f4b; stroke-width: 2 } .axis { stroke: #bbb }
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, d.y, width, d.y) + d.String() + "</svg>\n"
}

// bars draws how fast each side is beside the floor, for the scenarios in which
// several other libraries take part: two panels in a row, each with a logarithmic
// axis from 1/100 to 100 times the floor. Longer is better, everywhere.
func (r *report) bars() string {
	const room, left, decade, bar, top = 470, 110, 70, 17, 20
	const right = left + 4*decade
	d := &drawing{y: 60}
	d.text(10, 22, "title", "Speed, as a multiple of the floor: what go-redis does without a library. Longer is better.")
	x := 10
	for _, key := range []struct{ class, text string }{{"ours", "latchkey"}, {"peer", "other libraries"}, {"floor", "the floor"}} {
		fmt.Fprintf(d, "<rect x=\"%d\" y=\"34\" width=\"10\" height=\"10\" class=\"%s\"/>\n", x, key.class)
		d.text(x+15, 43, "", key.text)
		x += 120
	}
	drawn, below := 0, d.y
	for _, res := range r.Results {
		peers := 0
		for _, row := range res.Rows {
			if !row.ours() && row.Error == "" {
				peers++
			}
		}
		if res.Growth != "" || res.Floor == "" || peers < 3 {
			continue
		}
		x0, y := drawn%2*room, d.y
		drawn++
		what := ""
		if res.Slowness {
			what = " (floor's time / time)"
		}
		d.text(x0+10, y+12, "title", res.Title+what)
		y += top
		y0 := y
		var rows drawing
		for _, row := range res.Rows {
			if row.Error != "" || row.Ratio <= 0 {
				continue
			}
			speed, class := row.Ratio, "peer"
			if res.Slowness {
				speed = 1 / speed
			}
			switch {
			case strings.HasPrefix(row.Side, "floor"):
				class = "floor"
			case row.ours():
				class = "ours"
			}
			w := max(1, int(decade*math.Log10(100*min(speed, 100))))
			fmt.Fprintf(&rows, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\" class=\"%s\"/>\n", x0+left, y+2, w, class)
			rows.text(x0+left-8, y+12, "right", row.Side)
			rows.text(x0+left+w+6, y+12, "", short(math.Round(speed*1000)/1000))
			y += bar
		}
		for i, tick := range []string{"0.01", "0.1", "1 × floor", "10", "100"} {
			at := x0 + left + i*decade
			fmt.Fprintf(d, "<path d=\"M%d %dV%d\" class=\"axis\"/>\n", at, y0, y+4)
			d.text(at, y+16, "small middle", tick)
		}
		fmt.Fprintf(d, "<path d=\"M%d %dH%d\" class=\"axis\"/>\n", x0+left, y+2, x0+right)
		d.WriteString(rows.String())
		below = max(below, y+34)
		if drawn%2 == 0 {
			d.y = below
		}
	}
	if drawn == 0 {
		return ""
	}
	d.y = below
	return d.svg(2 * room)
}

// A curve is a figure over what grows.
type curve struct {
	of, what string
	value    func(r *row) float64
}

var allCurves = []curve{
	{"waiters", "heap MB", func(r *row) float64 { return r.Heap }},
	{"waiters", "ms to drain", func(r *row) float64 { return r.Max }},
	{"holds", "commands a period", func(r *row) float64 { return r.Extra["sent/period"] }},
	{"holds", "% of a core", func(r *row) float64 { return r.Extra["client % cpu"] }},
	{"queue", "hand-overs/s", func(r *row) float64 { return r.Rate }},
	{"processes", "hand-overs/s", func(r *row) float64 { return r.Rate }},
}

// curves draws how cost grows, both axes logarithmic, two pictures in a row.
func (r *report) curves() string {
	const w, h, room = 320, 150, 400
	d := &drawing{}
	drawn := 0
	for _, c := range allCurves {
		var xs, ys []float64
		for _, res := range r.Results {
			if res.Growth != c.of || len(res.Rows) == 0 || res.Rows[0].Error != "" {
				continue
			}
			if y := c.value(res.Rows[0]); y > 0 {
				xs, ys = append(xs, float64(res.Size)), append(ys, y)
			}
		}
		if len(xs) < 2 {
			continue
		}
		x0, y0 := 60+drawn%2*room, 30+drawn/2*(h+60)
		drawn++
		d.y = y0 + h + 40
		low, high := math.Log10(slices.Min(ys)), math.Log10(slices.Max(ys))
		low, high = math.Floor(low), max(math.Ceil(high), math.Floor(low)+1)
		end := math.Log10(slices.Max(xs))
		point := func(x, y float64) (int, int) {
			return x0 + int(w*math.Log10(x)/max(end, 1e-9)), y0 + h - int(h*(math.Log10(y)-low)/(high-low))
		}
		d.text(x0, y0-10, "title", c.what+" over "+c.of)
		fmt.Fprintf(d, "<path d=\"M%d %dV%dH%d\" fill=\"none\" class=\"axis\"/>\n", x0, y0, y0+h, x0+w)
		d.text(x0-6, y0+8, "small right", short(math.Pow(10, high)))
		d.text(x0-6, y0+h, "small right", short(math.Pow(10, low)))
		path := "M"
		for i := range xs {
			x, y := point(xs[i], ys[i])
			path += fmt.Sprintf("%d %d ", x, y)
			fmt.Fprintf(d, "<circle cx=\"%d\" cy=\"%d\" r=\"3\" class=\"ours\"/>\n", x, y)
			d.text(x, y-7, "small middle", short(ys[i]))
			d.text(x, y0+h+14, "small middle", short(xs[i]))
		}
		fmt.Fprintf(d, "<path d=\"%s\" class=\"line\"/>\n", strings.TrimSpace(path))
	}
	if drawn == 0 {
		return ""
	}
	return d.svg(2 * room)
}
