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

// bars draws the ratios to the floor of all scenarios that have one, on a
// logarithmic scale from 1/100 to 100.
func (r *report) bars() string {
	const left, middle, width = 130, 430, 800 // the floor is at middle
	d := &drawing{y: 10}
	for _, res := range r.Results {
		if res.Growth != "" || res.Floor == "" || len(res.Rows) < 2 {
			continue
		}
		d.y += 22
		better := "longer is faster"
		if res.Slowness {
			better = "time: shorter is faster"
		}
		d.text(10, d.y, "title", res.Title+", × "+res.Floor)
		d.text(width-10, d.y, "small right", better)
		d.y += 6
		top := d.y
		for _, row := range res.Rows {
			if row.Error != "" || row.Ratio <= 0 {
				continue
			}
			class := "peer"
			switch {
			case row.Side == res.Floor || strings.HasPrefix(row.Side, "floor"):
				class = "floor"
			case row.ours():
				class = "ours"
			}
			at := middle + int(150*math.Log10(min(max(row.Ratio, 0.01), 100)))
			x, w := min(at, middle), max(at, middle)-min(at, middle)
			fmt.Fprintf(d, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\" class=\"%s\"/>\n", x, d.y+2, max(w, 1), class)
			d.text(left-8, d.y+12, "right", row.Side)
			d.text(max(at, middle)+6, d.y+12, "", short(row.Ratio))
			d.y += 17
		}
		fmt.Fprintf(d, "<path d=\"M%d %dV%d\" class=\"axis\"/>\n", middle, top, d.y)
	}
	if d.Len() == 0 {
		return ""
	}
	d.y += 14
	return d.svg(width)
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
