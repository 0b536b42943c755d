// Goroutines, as many as Go runs at once (GOMAXPROCS).
//
// What it computes and how it is spoken to is said in spin.rs.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	items = 8000
	steps = 64
)

func part(phase, index, count int) uint32 {
	var sum uint32
	for item := items * index / count; item < items*(index+1)/count; item++ {
		x := uint32(phase*items + item + 1)
		for step := 0; step < steps; step++ {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
		}
		sum += x
	}
	return sum
}

func work(phases, count int) uint32 {
	var sum uint32
	for phase := 0; phase < phases; phase++ {
		var group sync.WaitGroup
		for index := 0; index < count; index++ {
			group.Add(1)
			go func(index int) {
				defer group.Done()
				atomic.AddUint32(&sum, part(phase, index, count))
			}(index)
		}
		group.Wait()
	}
	return sum
}

func main() {
	phases := 1000
	if len(os.Args) > 1 {
		number, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		phases = number
	}
	if os.Getenv("OMP_NUM_THREADS") == "1" {
		runtime.GOMAXPROCS(1)
	}
	count := runtime.GOMAXPROCS(0)
	// Goroutines need threads of the system, which are there from then on.
	work(1, count)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		begin := time.Now()
		sum := work(phases, count)
		fmt.Printf("{\"seconds\": %.6f, \"result\": [%d]}\n", time.Since(begin).Seconds(), sum)
	}
}
